"""`codea1 eval suites`: a Test LLM's tests as a dataset of problems with golden tests, written resumably.

Such a dataset is a source like any other (`data.source=FOLDER/problems.jsonl`), so that a Code LLM can be trained on
the tests without the model that wrote them.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from codea1_jax.evals.heldout import submit_outcomes
from codea1_jax.evals.journal import Journal, Progress
from codea1_jax.evals.requests import suite_request
from codea1_jax.game.players import Player
from data_pipeline import Problem, problem_files
from data_pipeline.golden import plain_line, stream_line
from sandbox import Judge, SuiteTest, Task

SUITES_FILE = "suites.jsonl"
DATASET_FILE = "problems.jsonl"


@dataclass(frozen=True)
class KeptTests:
    """The tests of a problem that are kept, and how many of those that were written state a wrong answer."""

    task_id: str
    tests: tuple[str, ...]
    wrong: int


def write_dataset(
    problems: Sequence[Problem], player: Player, suites: int, judge: Judge, journal: Journal, progress: Progress
) -> dict[str, Any]:
    """Writes the problems, each with the different generated tests that its solution passes; counts wrong ones.

    The Test LLM is shown the problem's solution and writes `suites` suites for it. Problems left without a test are not
    written but named. Raises SandboxError if the judge fails, and what the player raises.
    """

    def write(done: Collection[str]) -> Iterator[KeptTests]:
        requests = [suite_request(p, p.solution, suites) for p in problems if p.id not in done]
        for i, written in player.suites(requests):
            problem = requests[i].problem
            tests = tuple(dict.fromkeys(test for each in written for test in each.suite.tests))
            yield _keep(judge, problem, tests)

    known = journal.completed(SUITES_FILE, KeptTests, write, lambda done: progress(done, len(problems)))
    tested = [replace(p, golden_tests=known[p.id].tests) for p in problems if known[p.id].tests]
    problem_files.write(journal.path / DATASET_FILE, tested)
    figures = {
        "problems": len(tested),
        "tests": sum(len(problem.golden_tests) for problem in tested),
        "wrong": sum(kept.wrong for kept in known.values()),
    }
    return {
        "benchmarks": {"static suites": figures},
        "without_samples": [problem.id for problem in problems if not known[problem.id].tests],
    }


def _keep(judge: Judge, problem: Problem, tests: Sequence[SuiteTest]) -> KeptTests:
    outcomes = submit_outcomes(judge, problem, tests)()
    right = [test for test in tests if outcomes.holds(test)]
    is_stream = problem.task is Task.STREAM
    lines = [stream_line(test.call, test.stated) if is_stream else plain_line(test) for test in right]
    return KeptTests(problem.id, tuple(lines), len(tests) - len(right))
