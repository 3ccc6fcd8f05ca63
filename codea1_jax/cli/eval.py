"""`codea1 eval`: measure programs and tests on the benchmarks."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from codea1_jax.cli._arguments import positive
from codea1_jax.cli._evaluation import (
    account,
    add_common,
    add_source,
    describe,
    folder_of,
    load_data,
    make_pool,
    make_source,
    print_results,
    set_drawing,
)
from codea1_jax.common.errors import UserError

if TYPE_CHECKING:
    from codea1_jax.cli._arguments import Commands
    from codea1_jax.config import Role
    from codea1_jax.evals.commands.journal import Journal
    from codea1_jax.game.players import Player
    from data_pipeline import Problem
    from sandbox import Judge

    Sources = Sequence[tuple[str, Role, Callable[..., Any]]]

Results = dict[str, Any]
_PROGRAMS = "programs: a file of evalplus' or bigcodebench's form, or 'reference' for the data's own"
_TESTS = "tests: JSONL of {task_id, tests}, or 'reference' for the data's own"


def add(commands: Commands) -> None:
    """Registers the commands."""
    kinds = commands.add_parser("eval", help="measure programs and tests on benchmarks")
    kinds = kinds.add_subparsers(required=True, metavar="COMMAND")

    code = kinds.add_parser("code", help="programs: HumanEval+, MBPP+, BigCodeBench, or any problems with tests")
    add_source(code, _PROGRAMS)
    code.add_argument("--n", type=positive, default=32, help="programs drawn per problem; default: %(default)s")
    code.add_argument(
        "--audit", action="store_true", help="also count the problems whose checks pass a program that solves nothing"
    )
    code.set_defaults(run=_code)

    tests = kinds.add_parser("tests", help="tests: five rounds on the functions of UnLeakedTestBench")
    add_source(tests, _TESTS)
    tests.add_argument(
        "--protocol",
        choices=("rounds", "official", "paper"),
        default="rounds",
        help="rounds: one assert a round, in the suite language; official: the benchmark's own, one test function a "
        "round, in one conversation; paper: the same conversation, read and scored as the authors of Code-A1 do; "
        "default: %(default)s",
    )
    tests.add_argument(
        "--sample",
        type=Path,
        metavar="FILE",
        help="with --protocol paper: ids of the functions whose mutants count, one a line or a JSON list; default: the "
        "authors' fixed tenth of the whole benchmark, all functions of other data",
    )
    tests.set_defaults(run=_tests)

    both = kinds.add_parser("collaboration", help="of N programs, the one that passes the most generated tests")
    add_source(both, _PROGRAMS)
    add_source(both, _TESTS, "test-")
    both.add_argument("--n", type=positive, default=32, help="programs drawn per problem; default: %(default)s")
    both.set_defaults(run=_collaboration)

    suites = kinds.add_parser("suites", help="write a Test LLM's tests as golden tests of the problems, to train on")
    add_source(suites, _TESTS)
    suites.add_argument("--n", type=positive, default=1, help="suites drawn per problem; default: %(default)s")
    suites.add_argument(
        "--wrong-answers",
        choices=("drop", "correct"),
        default="drop",
        help="tests whose stated answer the solution does not give: drop them, or correct the answer; "
        "default: %(default)s",
    )
    suites.set_defaults(run=_suites)

    for parser in (code, both):
        parser.add_argument(
            "--limits",
            choices=("ours", "paper", "paper_last"),
            default="ours",
            help="of a program. ours: four times the reference's CPU time; paper: the original's 10 seconds of the "
            "clock (BigCodeBench: 240, and 30 GiB); paper_last: 20, as in its last validation; default: %(default)s",
        )
    for parser in (code, tests, both, suites):
        add_common(parser)


def _code(options: argparse.Namespace) -> int:
    from codea1_jax.evals.answers.samples import read_programs
    from codea1_jax.evals.commands.audit import audit_results
    from codea1_jax.evals.commands.code import evaluate_code
    from codea1_jax.evals.scores.benchmark import make_benchmark

    def measure(task: Task, coder: Player) -> Results:
        benchmark = make_benchmark(task.problems, task.judge).within(options.limits)
        results = evaluate_code(benchmark, coder, options.n, task.judge, task.journal, task.progress)
        return results | (audit_results(benchmark, task.judge, task.progress) if options.audit else {})

    return _evaluate(options, "code", "problems", [("", "code", read_programs)], measure)


def _tests(options: argparse.Namespace) -> int:
    from codea1_jax.evals.answers.samples import read_tests
    from codea1_jax.evals.commands.official import OFFICIAL, PAPER, evaluate_conversations
    from codea1_jax.evals.commands.tests import evaluate_tests
    from codea1_jax.evals.scores.paper import sampled

    if options.sample is not None and options.protocol != "paper":
        raise UserError(
            "--sample: only --protocol paper counts the mutants of a sample; add that, or leave --sample out"
        )

    def measure(task: Task, tester: Player) -> Results:
        problems, judge, journal, progress = task
        if options.protocol == "rounds":
            return evaluate_tests(problems, tester, judge, journal, progress)
        protocol, mutated = OFFICIAL, problems
        if options.protocol == "paper":
            protocol, mutated = PAPER, sampled(problems, options.sample)
        return evaluate_conversations(problems, mutated, protocol, tester, judge, journal, progress)

    return _evaluate(options, "tests", "functions", [("", "test", read_tests)], measure)


def _collaboration(options: argparse.Namespace) -> int:
    from codea1_jax.evals.answers.samples import read_programs, read_tests
    from codea1_jax.evals.commands.collaboration import evaluate_collaboration
    from codea1_jax.evals.scores.benchmark import make_benchmark

    def measure(task: Task, coder: Player, tester: Player) -> Results:
        benchmark = make_benchmark(task.problems, task.judge).within(options.limits)
        return evaluate_collaboration(benchmark, coder, tester, options.n, task.judge, task.journal, task.progress)

    sources: Sources = [("", "code", read_programs), ("test_", "test", read_tests)]
    return _evaluate(options, "collaboration", "problems", sources, measure)


def _suites(options: argparse.Namespace) -> int:
    from codea1_jax.evals.answers.samples import read_tests
    from codea1_jax.evals.commands.suites import write_dataset

    def measure(task: Task, tester: Player) -> Results:
        return write_dataset(
            task.problems, tester, options.n, options.wrong_answers, task.judge, task.journal, task.progress
        )

    return _evaluate(options, "suites", "problems", [("", "test", read_tests)], measure)


class Task(NamedTuple):
    """What every evaluation works with."""

    problems: Sequence[Problem]
    judge: Judge
    journal: Journal
    progress: Callable[..., None]  # (done, total, of what="...")


def _evaluate(
    options: argparse.Namespace,
    kind: str,
    unit: str,
    sources: Sources,
    measure: Callable[..., Results],
) -> int:
    """Reads the data, finds who answers, measures, and writes the results next to their journal.

    sources: of each who answers, the prefix of its options, its role, and what reads its samples from a file.
    measure: (task, *those who answer) -> figures.
    """
    from codea1_jax.common.console import progress_bar
    from codea1_jax.evals.commands.journal import Journal

    started = time.perf_counter()
    set_drawing(options)
    loaded = load_data(options.data)
    config = describe(options, kind, tuple(prefix for prefix, _, _ in sources))
    journal = Journal(folder_of(options, config), config)
    found = [make_source(options, loaded.problems, read, role, prefix) for prefix, role, read in sources]
    with make_pool(options) as judge, progress_bar(f"eval {kind}") as show:

        def progress(done: int, total: int, of_what: str = unit) -> None:
            show(done, total, of_what)

        results = measure(Task(loaded.problems, judge, journal, progress), *(player for player, _ in found))
    unknown = [sample for _, samples in found for sample in samples]
    results |= {"unknown_samples": unknown} | account(loaded, config, started)
    journal.finish(results)
    return print_results(results, journal.path, as_json=options.json)
