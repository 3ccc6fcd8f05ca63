"""What checks, or golden tests, are worth: which programs pass them that should not.

Three kinds are tried: programs that solve nothing, programs that lie about what they did, and mutants of the problem's
own solution. A mutant may behave as the solution does: a few that survive accuse nobody, many do.
"""

import ast
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from data_pipeline.benchmark import check_samples, make_benchmark
from data_pipeline.mutants import sample_mutants
from data_pipeline.problem import Problem
from sandbox import Judge, Status, Task

MUTANTS = 10  # of each solution
KINDS = {"trivial": "passed_by_trivial", "lying": "passed_by_lying", "mutants": "survived"}
"""The kinds of programs, and by what name results hold those that pass."""
_COLUMNS = {"problems": 10, "passed_by_trivial": 14, "passed_by_lying": 12, "mutants": 9, "survived": 9}

_FIRST = "next(iter((*args, *named.values())), None)"
# What each trivial function does, by what messages call it.
TRIVIAL: Mapping[str, tuple[str, ...]] = {
    **{f"return {value}": (f"return {value}",) for value in ("None", "[]", "{}", '""', "0")},
    "return inf": ('return float("inf")',),
    "return nan": ('return float("nan")',),
    "return an empty array": ("import numpy", "return numpy.array([])"),
    "return the first argument": (f"return {_FIRST}",),
    "empty the arguments": (
        "for value in (*args, *named.values()):",
        "    if hasattr(value, 'clear'):",
        "        value.clear()",
        f"return {_FIRST}",
    ),
}
# The same of scripts, whole.
TRIVIAL_SCRIPTS: Mapping[str, str] = {
    "print nothing": "",
    "print the input": "import sys\nprint(sys.stdin.read())",
    **{f"print {text}": f"print({text!r})" for text in ("0", "1", "-1", "YES", "NO")},
}
# Programs that a judge believes which runs a check behind them, in their process.
LYING: Mapping[str, str] = {
    "exit before the check": "import os\nos._exit(0)",
    "exit when called": "def {name}(*args, **named):\n    raise SystemExit(0)",
    "return what equals anything": (
        "class Any:\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\n"
        "    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__\n"
        "def {name}(*args, **named):\n    return Any()"
    ),
    "change what checks": (
        "import unittest\nfor name in dir(unittest.TestCase):\n    if name.startswith('assert'):\n"
        "        setattr(unittest.TestCase, name, lambda *args, **named: None)\n"
        "def {name}(*args, **named):\n    return None"
    ),
}


def audit_problems(
    problems: Sequence[Problem], judge: Judge, progress: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, Any]:
    """By benchmark how many problems were audited, and pass what they should not; and by problem what it passes.

    Of a class nothing but mutants is tried. Raises ValueError if no problem can be judged, and SandboxError.
    """
    benchmark = make_benchmark(problems, judge)
    unjudged = {refusal.id: refusal.reason for refusal in benchmark.unjudged}
    if not benchmark.problems:
        raise ValueError(f"no problem of it can be judged ({next(iter(unjudged.values()), 'there is none')})")
    tried = {problem: programs_of(problem) for problem in benchmark.problems}
    tried = {problem: kinds for problem, kinds in tried.items() if any(kinds.values())}
    texts = ((problem, [text for kind in kinds.values() for text in kind.values()]) for problem, kinds in tried.items())
    passed: dict[str, dict[str, list[str]]] = {kind: {} for kind in KINDS}
    audited: dict[str, Counter[str]] = {}
    progress(0, len(tried))
    results = check_samples(benchmark, texts, judge)
    for done, ((problem, kinds), result) in enumerate(zip(tried.items(), results, strict=True), start=1):
        figures = audited.setdefault(
            problem.source, Counter(dict.fromkeys(("problems", "mutants", *KINDS.values()), 0))
        )
        figures["problems"] += 1
        figures["mutants"] += len(kinds["mutants"])
        statuses = iter(result.statuses)
        for kind, names in kinds.items():
            passing = [name for name in names if next(statuses) == Status.PASSED]
            if passing:
                passed[kind][problem.id] = passing
            figures[KINDS[kind]] += len(passing) if kind == "mutants" else bool(passing)
        progress(done, len(tried))
    return {"audited": audited, **{KINDS[kind]: found for kind, found in passed.items()}, "unjudged": unjudged}


def programs_of(problem: Problem) -> dict[str, dict[str, str]]:
    tried: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    if problem.task is Task.FUNCTION:
        tried["trivial"] = dict(zip(TRIVIAL, trivial_programs(problem.entry_point), strict=True))
        tried["lying"] = {name: text.format(name=problem.entry_point) for name, text in LYING.items()}
    elif problem.task is Task.STREAM:
        tried["trivial"] = dict(TRIVIAL_SCRIPTS)
    if problem.solution:
        plain = ast.unparse(ast.parse(problem.solution))
        tried["mutants"] = {_change(plain, mutant): mutant for mutant in sample_mutants(problem.solution, MUTANTS, 0)}
    return tried


def trivial_programs(entry_point: str) -> tuple[str, ...]:
    head = f"def {entry_point}(*args, **named):\n    "
    return tuple(head + "\n    ".join(lines) + "\n" for lines in TRIVIAL.values())


def audit_lines(results: Mapping[str, Any]) -> list[str]:
    """The same for people: what each problem passes, then a table of the benchmarks."""
    words = {"passed_by_trivial": "a program that solves nothing", "passed_by_lying": "a program that lies"}
    lines = [
        f"passed by {what}: {problem}: {', '.join(names)}"
        for figure, what in words.items()
        for problem, names in results[figure].items()
    ]
    lines += [f"mutants survive: {problem}: {'; '.join(changes)}" for problem, changes in results["survived"].items()]
    lines += [f"cannot be judged: {problem}: {reason}" for problem, reason in results["unjudged"].items()]
    width = max(map(len, ("checks of", *results["audited"])))
    lines.append(f"{'checks of':{width}}  problems  pass trivial  pass lying  mutants  survive")
    for benchmark, figures in results["audited"].items():
        lines.append(f"{benchmark:{width}}" + "".join(f"{figures[name]:{size}}" for name, size in _COLUMNS.items()))
    return lines


def _change(solution: str, mutant: str) -> str:
    pairs = zip(solution.splitlines(), mutant.splitlines(), strict=False)
    return next((f"{a.strip()} -> {b.strip()}" for a, b in pairs if a != b), mutant)
