"""The judge's service next to SandboxFusion's own, on the samples of its repository: who accepts what, and how fast.

    codea1-judge serve --preload numpy
    python benches/bench_fusion.py http://127.0.0.1:8787 http://127.0.0.1:8080 SandboxFusion

`submit` is asked about every row: programs that are right, wrong, or forge a verdict. A row's right program is its
solution; where it has none, one that looks its tests' inputs up. `run_code` is asked to run one program after another
in turns, so that a busy machine slows both. Ends with one line of JSON.
"""

import argparse
import ast
import json
import statistics
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench_sandbox import CALLS, as_script, job, ratio, seconds

from data_pipeline import Problem
from data_pipeline.sandbox_fusion import FORMAT
from data_pipeline.source_code import parse
from sandbox import Task

AT_ONCE, SECONDS = 4, 120  # SandboxFusion counts seconds of the clock: a busy machine must not decide a verdict
# SandboxFusion's name of a dataset, and its file of samples.
SAMPLES = {
    "mbpp": "code_eval_mbpp",
    "mhpp": "code_eval_mhpp",
    "shadow_humaneval_python": "code_eval_shadow_humaneval_python",
    "evoeval": "code_eval_EvoEval",
    "bigcodebench": "code_eval_bigcodebench",
    "code_contests": "code_eval_code_contests",
}
HUMAN_EVAL = ("shadow_humaneval_python", "evoeval", "bigcodebench")
WRONG = {"does nothing": "pass", "returns None": "def {name}(*_, **__): pass"}
# Each exits with 0 before an assert that follows it, or makes it true.
FORGERIES = {
    "os._exit": "import os\nos._exit(0)",
    "sys.exit": "import sys\nsys.exit(0)",
    "exit in the function": "def {name}(*_, **__): raise SystemExit(0)",
    "exit at the end": "import atexit, os\natexit.register(os._exit, 0)",
    "equal to anything": (
        "class Any(float):\n    def __eq__(self, _): return True\n    __lt__ = __gt__ = __le__ = __ge__ = __eq__\n"
        "    __sub__ = __rsub__ = __abs__ = lambda self, *_: self\n    __hash__ = None\n"
        "def {name}(*_, **__): return Any()"
    ),
    "reads the tests": (
        "import ast\nKNOWN = {{}}\nfor node in ast.walk(ast.parse(open(__file__).read())):\n"
        "    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Call):\n"
        "        KNOWN[str(list(map(ast.unparse, node.left.args)))] = node.comparators[0]\n"
        "def {name}(*args): return eval(ast.unparse(KNOWN[str(list(map(repr, args)))]))"
    ),
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("ours", help="address of the judge's service")
    arguments.add_argument("theirs", help="address of SandboxFusion's service")
    arguments.add_argument("clone", type=Path, help="a clone of SandboxFusion's repository, which has the samples")
    arguments.add_argument("--rows", type=int, default=20, help="at most of each dataset; default: %(default)s")
    arguments.add_argument("--rounds", type=int, default=5)
    chosen = arguments.parse_args()
    counts: dict[str, Counter[str]] = {}
    submitted = list(asked(chosen.clone / "sandbox/tests/datasets/samples", chosen.rows))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        verdicts = [
            list(threads.map(lambda each, to=to: accepts(to, each[0], each[1], each[-1]), submitted))
            for to in (chosen.ours, chosen.theirs)
        ]
    for (dataset, row, kind, name, _), ours, theirs in zip(submitted, *verdicts, strict=True):
        counts.setdefault(f"{dataset} {kind}", Counter())[f"{ours}, {theirs}"] += 1
        if ours != theirs and kind != "forged":
            print(f"{dataset} {row['id']}: {kind} ({name}): ours {ours}, SandboxFusion {theirs}")
    print(f"{'programs':36}{'ours, SandboxFusion':>20}")
    for group, found in counts.items():
        print(f"{group:36}{'; '.join(f'{count} {both}' for both, count in found.most_common())}")
    speeds = compare(chosen.ours, chosen.theirs, chosen.rounds)
    rates = {name: statistics.median(values) for name, values in speeds.items()}
    faster = ratio(speeds["ours"], speeds["theirs"])
    print(f"run_code, programs/s: ours {rates['ours']:.0f}, SandboxFusion {rates['theirs']:.1f}; ratio {faster:.1f}")
    print(json.dumps({"bench": "fusion", "verdicts": counts, "programs_per_second": rates, "ratio": faster}))


def asked(samples: Path, most: int) -> Iterator[tuple[str, dict[str, Any], str, str, str]]:
    """Of each program that is submitted: dataset, row, kind, name and text."""
    for dataset, file in SAMPLES.items():
        for row in map(json.loads, (samples / f"{file}.jsonl").read_text().splitlines()[:most]):
            with suppress(ValueError):  # a check that does not parse
                for kind, programs in programs_of(FORMAT.problem_of(row), row).items():
                    yield from ((dataset, current(dataset, row), kind, name, text) for name, text in programs.items())


def current(dataset: str, row: dict[str, Any]) -> dict[str, Any]:
    """The row with the fields that SandboxFusion's readers of HumanEval's kin look for, which its samples lack."""
    if dataset not in HUMAN_EVAL:
        return row
    language = "pytest" if dataset == "bigcodebench" else "python"
    return row | json.loads(row["labels"]) | {"prompt": row["content"], "tests": row["test"], "language": language}


def programs_of(problem: Problem, row: Mapping[str, Any]) -> dict[str, Mapping[str, str]]:
    """Programs for a problem, by kind and name."""
    right = solution_of(problem, row)
    wrong, forged = (
        {name: text.format(name=problem.entry_point or "solve") for name, text in texts.items()}
        for texts in (WRONG, FORGERIES)
    )
    return {"right": {"solution": right} if right else {}, "wrong": wrong, "forged": forged}


def solution_of(problem: Problem, row: Mapping[str, Any]) -> str:
    """The problem's own, or one that knows its tests; empty where there is neither."""
    if problem.solution:
        return problem.solution
    if problem.task is Task.STREAM:
        known = {case["input"]["stdin"]: case["output"]["stdout"] for case in json.loads(row["test"])}
        return f"import sys\nprint({known!r}[sys.stdin.read()])"
    asserts = [node.test for node in parse(problem.check, "a check").body if isinstance(node, ast.Assert)]
    pairs = [
        f"(({''.join(f'{ast.unparse(each)}, ' for each in test.left.args)}), {ast.unparse(test.comparators[0])})"
        for test in asserts
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and isinstance(test.left, ast.Call)
    ]
    if len(pairs) < len(asserts):
        return ""
    return f"def {problem.entry_point}(*args): return next(b for a, b in [{', '.join(pairs)}] if a == args)"


def accepts(address: str, dataset: str, row: Mapping[str, Any], program: str) -> str:
    """Whether a service accepts a program as a row's solution: yes, no, or the status of its refusal."""
    config = {"language": "python", "run_timeout": SECONDS, "provided_data": row, "extra": {"is_freeform": True}}
    asked = {"dataset": dataset, "id": row["id"], "completion": f"```python\n{program}\n```", "config": config}
    try:
        answer = post(f"{address}/submit", asked)
    except urllib.error.HTTPError as error:
        return f"{error.code} ({error.read().decode()[:80]})"
    return "yes" if answer["accepted"] else "no"


def compare(ours: str, theirs: str, rounds: int) -> dict[str, list[float]]:
    """Programs per second of both services, round by round."""
    speeds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        speeds["ours"].append(100 / seconds(lambda: run_all(ours, 100)))
        speeds["theirs"].append(20 / seconds(lambda: run_all(theirs, 20)))
    return speeds


def run_all(address: str, count: int) -> None:
    def run(script: str) -> None:
        answer = post(f"{address}/run_code", {"code": script, "language": "python", "run_timeout": SECONDS})
        assert answer["run_result"]["stdout"].count("\n") == len(CALLS), answer

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(run, [as_script(job(CALLS)) for _ in range(count)]))


def post(address: str, document: object) -> Any:
    request = urllib.request.Request(address, json.dumps(document).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=900) as response:
        return json.loads(response.read())


if __name__ == "__main__":
    main()
