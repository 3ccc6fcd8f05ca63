"""`codea1 eval`: measure programs and tests on the benchmarks."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from codea1_jax.cli.evaluation import (
    account,
    add_common,
    add_source,
    describe,
    folder_of,
    load_data,
    make_pool,
    make_source,
    positive,
    print_results,
)
from codea1_jax.cli.progress import progress_bar

if TYPE_CHECKING:
    from codea1_jax.cli.arguments import Commands

_PROGRAMS = "programs: a file of evalplus' or bigcodebench's form, or 'reference' for the data's own"
_TESTS = "tests: JSONL of {task_id, tests}, or 'reference' for the data's own"


def add(commands: Commands) -> None:
    """Registers the commands."""
    kinds = commands.add_parser("eval", help="measure programs and tests on benchmarks")
    kinds = kinds.add_subparsers(required=True, metavar="COMMAND")

    code = kinds.add_parser("code", help="programs: HumanEval+, MBPP+, BigCodeBench, or any problems with tests")
    add_source(code, _PROGRAMS)
    code.add_argument("--n", type=positive, default=32, help="programs drawn per problem; default: %(default)s")
    code.set_defaults(run=_code)

    tests = kinds.add_parser("tests", help="tests: five rounds on the functions of UnLeakedTestBench")
    add_source(tests, _TESTS)
    tests.set_defaults(run=_tests)

    both = kinds.add_parser("collaboration", help="of N programs, the one that passes the most generated tests")
    add_source(both, _PROGRAMS)
    add_source(both, _TESTS, "test-")
    both.add_argument("--n", type=positive, default=32, help="programs drawn per problem; default: %(default)s")
    both.set_defaults(run=_collaboration)

    suites = kinds.add_parser("suites", help="write a Test LLM's tests as golden tests of the problems, to train on")
    add_source(suites, _TESTS)
    suites.add_argument("--n", type=positive, default=1, help="suites drawn per problem; default: %(default)s")
    suites.set_defaults(run=_suites)

    for parser in (code, tests, both, suites):
        add_common(parser)


def _code(options: argparse.Namespace) -> int:
    from codea1_jax.evals.benchmark import make_benchmark
    from codea1_jax.evals.journal import Journal
    from codea1_jax.evals.run_code import evaluate_code
    from codea1_jax.evals.samples import read_programs

    started = time.perf_counter()
    loaded, config = load_data(options.data), describe(options, "code")
    journal = Journal(folder_of(options, config), config)
    generator, unknown = make_source(options, loaded.problems, read_programs, "code")
    with make_pool(options) as pool, progress_bar("problems") as progress:
        benchmark = make_benchmark(loaded.problems, pool)
        results = evaluate_code(benchmark, generator, options.n, pool, journal, progress)
    results |= {"unknown_samples": list(unknown)} | account(loaded, config, started)
    journal.finish(results)
    return print_results(results, journal.path, as_json=options.json)


def _tests(options: argparse.Namespace) -> int:
    from codea1_jax.evals.journal import Journal
    from codea1_jax.evals.run_tests import evaluate_tests
    from codea1_jax.evals.samples import read_tests

    started = time.perf_counter()
    loaded, config = load_data(options.data), describe(options, "tests")
    journal = Journal(folder_of(options, config), config)
    generator, unknown = make_source(options, loaded.problems, read_tests, "test")
    with make_pool(options) as pool, progress_bar("functions") as progress:
        results = evaluate_tests(loaded.problems, generator, pool, journal, progress)
    results |= {"unknown_samples": list(unknown)} | account(loaded, config, started)
    journal.finish(results)
    return print_results(results, journal.path, as_json=options.json)


def _collaboration(options: argparse.Namespace) -> int:
    from codea1_jax.evals.benchmark import make_benchmark
    from codea1_jax.evals.journal import Journal
    from codea1_jax.evals.run_collaboration import evaluate_collaboration
    from codea1_jax.evals.samples import read_programs, read_tests

    started = time.perf_counter()
    loaded, config = load_data(options.data), describe(options, "collaboration", ("", "test_"))
    journal = Journal(folder_of(options, config), config)
    coder, unknown = make_source(options, loaded.problems, read_programs, "code")
    tester, unknown_tests = make_source(options, loaded.problems, read_tests, "test", "test_")
    with make_pool(options) as pool, progress_bar("problems") as progress:
        benchmark = make_benchmark(loaded.problems, pool)
        results = evaluate_collaboration(benchmark, coder, tester, options.n, pool, journal, progress)
    results |= {"unknown_samples": [*unknown, *unknown_tests]} | account(loaded, config, started)
    journal.finish(results)
    return print_results(results, journal.path, as_json=options.json)


def _suites(options: argparse.Namespace) -> int:
    from codea1_jax.evals.journal import Journal
    from codea1_jax.evals.run_suites import write_dataset
    from codea1_jax.evals.samples import read_tests

    started = time.perf_counter()
    loaded, config = load_data(options.data), describe(options, "suites")
    journal = Journal(folder_of(options, config), config)
    generator, unknown = make_source(options, loaded.problems, read_tests, "test")
    with make_pool(options) as pool, progress_bar("problems") as progress:
        results = write_dataset(loaded.problems, generator, options.n, pool, journal, progress)
    results |= {"unknown_samples": list(unknown)} | account(loaded, config, started)
    journal.finish(results)
    return print_results(results, journal.path, as_json=options.json)
