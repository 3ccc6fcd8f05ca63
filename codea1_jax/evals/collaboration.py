"""Test-time collaboration: of N programs of one model, take the one that passes the most tests of another.

Nothing of the problem but its question is used to choose: a test counts with the answer that it states, right or wrong.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from operator import not_
from typing import Any

from codea1_jax.evals.code import SAMPLES_FILE, evaluate_code
from codea1_jax.evals.journal import RESULTS_FILE, Journal, Progress
from codea1_jax.evals.metrics import estimate
from codea1_jax.evals.requests import program_requests, suite_request
from codea1_jax.evals.samples import sample_line
from codea1_jax.game.players import Player
from codea1_jax.game.tasks import task_of
from data_pipeline import Problem
from data_pipeline.benchmark import Benchmark
from data_pipeline.golden import spelled
from data_pipeline.verdicts import StatedAnswers, allowed, submit_program, time_for
from sandbox import Judge, Status, SuiteTest, Test, Verdict

SUITES_FILE = "suites.jsonl"
KS = (1, 2, 4, 8, 16, 32, 64)  # programs among which one is chosen

# By problem id and the index of the program that the Test LLM was shown.
Suites = dict[tuple[str, int], Sequence[SuiteTest]]


def submit_tests(
    judge: Judge, problem: Problem, programs: Sequence[str], tests: Sequence[SuiteTest]
) -> Callable[[], dict[str, tuple[bool, ...]]]:
    """Submits each different program; what is returned waits for the tests that it passes. Raises SandboxError then."""
    answers = StatedAnswers(judge, problem, [test.stated for test in tests]).result()
    values = [answers[test.stated] for test in tests]
    known = [Test(t.call, v, tolerance=problem.tolerance) for t, v in zip(tests, values, strict=True) if v is not None]
    limits = time_for(allowed(problem, judge.limits), len(known))  # one slow test must not cost another
    pending = {program: submit_program(judge, problem, program, known, limits) for program in dict.fromkeys(programs)}

    def passed(verdicts: Iterator[Verdict]) -> tuple[bool, ...]:
        return tuple(value is not None and next(verdicts).passed for value in values)

    return lambda: {program: passed(iter(each.result().tests)) for program, each in pending.items()}


@dataclass(frozen=True)
class Survivor:
    """One of the different programs for a problem. copies: how often it was drawn; killed_by: the tests it fails."""

    program: str
    copies: int
    passed: int
    killed_by: tuple[str, ...]


def solve(problem: Problem, coder: Player, tester: Player, samples: int, judge: Judge) -> tuple[Survivor, ...]:
    """The different programs among `samples`, those that pass most tests first; of equals, those drawn more often.

    The Test LLM is shown each of them and writes a suite. Raises SandboxError if the judge fails, and what the players
    raise.
    """
    ((_, drawn),) = coder.programs(program_requests([problem], samples))
    copies = Counter(candidate.program for candidate in drawn)
    programs = [*copies]
    requests = [suite_request(problem, program, number=i) for i, program in enumerate(programs)]
    suites = {i: written.suite.tests for i, (written,) in tester.suites(requests)}
    tests = tuple(dict.fromkeys(test for i in sorted(suites) for test in suites[i]))
    passed = submit_tests(judge, problem, programs, tests)()
    lines = [spelled(test, problem) for test in tests]
    survivors = [
        Survivor(program, count, sum(passed[program]), tuple(compress(lines, map(not_, passed[program]))))
        for program, count in copies.items()
    ]
    return tuple(sorted(survivors, key=lambda each: (-each.passed, -each.copies)))


def evaluate_collaboration(
    benchmark: Benchmark,
    coder: Player,
    tester: Player,
    samples: int,
    judge: Judge,
    journal: Journal,
    progress: Progress,
) -> dict[str, Any]:
    """`codea1 eval collaboration`: as `evaluate_code`, and what the generated tests are worth.

    `best_of_n` is the share of problems whose choice is correct, `best_of_K` that of the choices among the first K.

    Raises SandboxError if the judge fails, and what the players raise.
    """
    alone = evaluate_code(benchmark, coder, samples, judge, journal, progress)
    programs = _programs(benchmark.problems, journal)
    suites = _suites(programs, tester, journal)

    pending = {}
    for problem, written in programs.items():
        tests = dict.fromkeys(test for i in _distinct(written) for test in suites[problem.id, i])
        pending[problem] = submit_tests(judge, problem, written, tuple(tests))
    statuses = {line["task_id"]: line["statuses"] for line in journal.lines(RESULTS_FILE)}
    solved: dict[str, dict[str, list[float]]] = {}
    for problem, passes in pending.items():
        passed = passes()
        counts = [sum(passed[program]) for program in programs[problem]]
        of_source = solved.setdefault(problem.source, {})
        for k in [k for k in KS if k <= samples] + [None]:
            chosen = counts.index(max(counts[:k]))  # of equals the first
            right = float(statuses[problem.id][chosen] == Status.PASSED)
            of_source.setdefault(f"best_of_{k or 'n'}", []).append(right)
    for source, figures in alone["benchmarks"].items():
        for name, shares in solved.get(source, {}).items():
            unjudged = [0.0] * (benchmark.sizes[source] - len(shares))
            figures[name] = asdict(estimate([*shares, *unjudged]))
    return alone


def _programs(problems: Sequence[Problem], journal: Journal) -> dict[Problem, tuple[str, ...]]:
    drawn: dict[str, list[str]] = {}
    for line in journal.lines(SAMPLES_FILE):
        drawn.setdefault(line["task_id"], []).append(line["solution"])
    tasks = {problem: sample_line(problem, "")["task_id"] for problem in problems}
    return {problem: tuple(drawn[task]) for problem, task in tasks.items() if task in drawn}


def _suites(programs: Mapping[Problem, Sequence[str]], tester: Player, journal: Journal) -> Suites:
    by_id = {problem.id: problem for problem in programs}
    suites: Suites = {}
    for line in journal.lines(SUITES_FILE):
        problem = by_id[line["task_id"]]
        tests = task_of(problem).suite_in("\n".join(line["tests"]), problem).tests
        suites[line["task_id"], line["program"]] = tests
    missing = [(p, i) for p, written in programs.items() for i in _distinct(written) if (p.id, i) not in suites]
    requests = [suite_request(problem, programs[problem][i], number=i) for problem, i in missing]
    for index, (written_suite,) in tester.suites(requests):
        (problem, number), tests = missing[index], written_suite.suite.tests
        lines = [spelled(test, problem) for test in tests]
        journal.add(SUITES_FILE, [{"task_id": problem.id, "program": number, "tests": lines}])
        suites[problem.id, number] = tests
    return suites


def _distinct(programs: Sequence[str]) -> list[int]:
    return [i for i, program in enumerate(programs) if programs.index(program) == i]
