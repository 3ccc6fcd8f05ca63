"""`codea1 eval collaboration`: programs of one model, tests of another, and the choice between the programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from codea1_jax.evals.answers.requests import suite_request
from codea1_jax.evals.answers.samples import sample_line
from codea1_jax.evals.commands.code import RESULTS_FILE, SAMPLES_FILE, Progress, evaluate_code
from codea1_jax.evals.commands.journal import Journal
from codea1_jax.evals.scores.benchmark import Benchmark
from codea1_jax.evals.scores.collaboration import Choice, PendingChoice
from codea1_jax.evals.scores.metrics import estimate
from codea1_jax.evals.scores.unleaked import spelled
from codea1_jax.game.parsing import suite_in
from codea1_jax.game.players import Player
from data_pipeline import Problem
from sandbox import Judge, SuiteTest, VerdictStatus

SUITES_FILE = "suites.jsonl"
CHOICES_FILE = "choices.jsonl"

Suites = dict[
    tuple[str, int], Sequence[SuiteTest]
]  # by problem id and the index of the program that the Test LLM was shown


def evaluate_collaboration(
    benchmark: Benchmark,
    coder: Player,
    tester: Player,
    samples: int,
    judge: Judge,
    journal: Journal,
    progress: Progress,
) -> dict[str, Any]:
    """`run_code.evaluate_code`, and `best_of_n`: the share of problems whose chosen program is correct.

    Raises SandboxError if the judge fails, and what the players raise.
    """
    alone = evaluate_code(benchmark, coder, samples, judge, journal, progress)
    programs = _programs(benchmark.problems, journal)
    suites = _suites(programs, tester, journal)
    choices = {line["task_id"]: _choice(line) for line in journal.lines(CHOICES_FILE)}
    pending = [
        PendingChoice(judge, problem, written, [suites[problem.id, i] for i in _distinct(written)])
        for problem, written in programs.items()
        if problem.id not in choices
    ]
    for choosing in pending:
        choice = choosing.result()
        journal.add(CHOICES_FILE, [asdict(choice)])
        choices[choice.task_id] = choice
    statuses = {line["task_id"]: line["statuses"] for line in journal.lines(RESULTS_FILE)}
    for source, found in alone["benchmarks"].items():
        chosen = [statuses[p.id][choices[p.id].chosen] for p in programs if p.source == source]
        solved = [float(status == VerdictStatus.PASSED) for status in chosen]
        found["best_of_n"] = asdict(estimate([*solved, *[0.0] * (benchmark.sizes[source] - len(solved))]))
    return alone


def _programs(problems: Sequence[Problem], journal: Journal) -> dict[Problem, tuple[str, ...]]:
    """The samples of every problem that has some."""
    drawn: dict[str, list[str]] = {}
    for line in journal.lines(SAMPLES_FILE):
        drawn.setdefault(line["task_id"], []).append(line["solution"])
    tasks = {problem: sample_line(problem, "")["task_id"] for problem in problems}
    return {problem: tuple(drawn[task]) for problem, task in tasks.items() if task in drawn}


def _suites(programs: Mapping[Problem, Sequence[str]], tester: Player, journal: Journal) -> Suites:
    """One suite for every distinct program; what earlier sessions wrote is not asked for again."""
    entry_points = {problem.id: problem.entry_point for problem in programs}
    suites: Suites = {}
    for line in journal.lines(SUITES_FILE):
        tests = suite_in("\n".join(line["tests"]), entry_points[line["task_id"]]).tests
        suites[line["task_id"], line["program"]] = tests
    requests = [
        suite_request(problem, written[i], number=i)
        for problem, written in programs.items()
        for i in _distinct(written)
        if (problem.id, i) not in suites
    ]
    for index, (found,) in tester.suites(requests):
        problem, number, tests = requests[index].problem.id, requests[index].number, found.suite.tests
        journal.add(SUITES_FILE, [{"task_id": problem, "program": number, "tests": [spelled(t) for t in tests]}])
        suites[problem, number] = tests
    return suites


def _distinct(programs: Sequence[str]) -> list[int]:
    """The index of each different program."""
    return [i for i, program in enumerate(programs) if programs.index(program) == i]


def _choice(line: Mapping[str, Any]) -> Choice:
    return Choice(line["task_id"], line["tests"], tuple(line["passes"]))
