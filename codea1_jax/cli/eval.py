"""`codea1 eval`: measure programs and tests on the benchmarks."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path

from codea1_jax.cli._arguments import Commands, add_judge
from codea1_jax.cli._evaluation import CONVERSATIONS, Drawing, Evaluation
from codea1_judge.cli import positive

_PROGRAMS = "programs: a file of evalplus' or bigcodebench's form, or 'reference' for the data's own"
_TESTS = "tests: JSONL of {task_id, tests}, or 'reference' for the data's own"


def add(commands: Commands) -> None:
    """Registers the commands."""
    kinds = commands.add_parser("eval", help="measure programs and tests on benchmarks")
    kinds = kinds.add_subparsers(required=True, metavar="COMMAND")

    code = kinds.add_parser("code", help="programs: HumanEval+, MBPP+, BigCodeBench, or any problems with tests")
    _add_source(code, _PROGRAMS)
    _add_count(code, "programs", 32)
    code.add_argument(
        "--audit",
        action="store_true",
        help="also count the problems whose checks pass what solves nothing, or lies",
    )
    _add_choice(code)
    _add_limits(code)
    _add_common(code, _code)

    tests = kinds.add_parser("tests", help="tests: five rounds on the functions of UnLeakedTestBench")
    _add_source(tests, _TESTS)
    tests.add_argument(
        "--protocol",
        choices=("rounds", "official", "paper"),
        default="rounds",
        help="rounds: one assert a round, in the suite language; official: the benchmark's own, one test function a "
        "round, in one conversation; paper: the same conversation, read and scored as the authors of Code-A1 do; "
        "default: %(default)s",
    )
    _add_common(tests, _tests, CONVERSATIONS)

    both = kinds.add_parser("collaboration", help="of N programs, the one that passes the most generated tests")
    _add_source(both, _PROGRAMS)
    _add_source(both, _TESTS, "test-")
    _add_count(both, "programs", 32)
    _add_limits(both)
    _add_common(both, _collaboration)

    suites = kinds.add_parser("suites", help="write a Test LLM's tests as golden tests of the problems, to train on")
    _add_source(suites, _TESTS)
    _add_count(suites, "suites", 1)
    suites.add_argument(
        "--wrong-answers",
        choices=("drop", "correct"),
        default="drop",
        help="tests whose stated answer the solution does not give: drop them, or correct the answer; "
        "default: %(default)s",
    )
    _add_common(suites, _suites)


def _add_source(parser: argparse.ArgumentParser, samples: str, prefix: str = "") -> None:
    """A file of samples, or a model to draw them from; with a prefix, of another role."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(f"--{prefix}samples", metavar="FILE", help=samples)
    source.add_argument(
        f"--{prefix}model", help="a Hugging Face directory, a run's directory, a Hub id, or http://host:port"
    )
    parser.add_argument(f"--{prefix}served-model", help="which model of an endpoint; default: the first it serves")


def _add_count(parser: argparse.ArgumentParser, drawn: str, default: int) -> None:
    parser.add_argument("--n", type=positive, default=default, help=f"{drawn} drawn per problem; default: %(default)s")


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--difficulty", action="append", metavar="NAME", help="problems that are rated so; may be repeated"
    )
    for name, which in (("since", "first"), ("until", "last")):
        parser.add_argument(
            f"--{name}", type=_day, metavar="DAY", help=f"the {which} day of publication, such as 2024-08-31"
        )


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2024-08-31") from None


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limits",
        choices=("ours", "paper", "paper_last"),
        default="ours",
        help="of a program. ours: four times the reference's CPU time; paper: the original's 10 seconds of the "
        "clock (BigCodeBench: 240, and 30 GiB); paper_last: 20, as in its last validation; default: %(default)s",
    )


def _add_common(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], int],
    protocols: Mapping[str, Drawing] | None = None,
) -> None:
    """Data, sampling, where results go, and what runs the command. protocols: those that draw samples otherwise."""
    parser.add_argument("--data", required=True, help="file, folder, or dataset of the Hub")
    for name, kind in zip(Drawing._fields, (float, float, int), strict=True):
        unless = (
            f"with --protocol {protocol}: {getattr(other, name)}" for protocol, other in (protocols or {}).items()
        )
        shown = "; ".join([f"default: {getattr(Drawing(), name)}", *unless])
        shown = f"longest response; {shown}" if name == "max_tokens" else shown
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=shown)
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument(
        "--reading",
        choices=["commonmark", "paper"],
        help="how a program is read from a response; default: as in the run, else commonmark",
    )
    parser.add_argument(
        "--templates", metavar="FILE", help="YAML of prompts in place of ours; default: as in the run, else ours"
    )
    parser.add_argument(
        "--dtype",
        choices=["bfloat16", "float16", "float32"],
        help="in which a model of a run or a directory computes (the authors' tests are float16's); "
        "default: bfloat16, on a CPU float32",
    )
    add_judge(parser)
    parser.add_argument("--out", type=Path, help="folder of the evaluation, to resume it too; default: below runs/")
    parser.add_argument("--json", action="store_true", help="print nothing but the results, on one line")
    parser.set_defaults(run=run)


def _code(options: argparse.Namespace) -> int:
    from codea1_jax.evals.code import evaluate_code
    from codea1_jax.evals.samples import read_programs
    from data_pipeline.audit import audit
    from data_pipeline.benchmark import make_benchmark

    evaluation = Evaluation(options, "code")
    coder = evaluation.player("code", read_programs)
    with evaluation.judging("problems") as (judge, progress):
        benchmark = make_benchmark(evaluation.problems, judge).within(options.limits)
        results = evaluate_code(benchmark, coder, options.n, judge, evaluation.journal, progress)
        if options.audit:
            results |= audit(benchmark, judge, progress, mutants=0)
    return evaluation.report(results)


def _tests(options: argparse.Namespace) -> int:
    from codea1_jax.evals.conversations import OFFICIAL, PAPER, evaluate_conversations
    from codea1_jax.evals.paper import sampled
    from codea1_jax.evals.rounds import evaluate_tests
    from codea1_jax.evals.samples import read_tests

    evaluation = Evaluation(options, "tests")
    problems, journal = evaluation.problems, evaluation.journal
    tester = evaluation.player("test", read_tests)
    with evaluation.judging("functions") as (judge, progress):
        if options.protocol == "rounds":
            results = evaluate_tests(problems, tester, judge, journal, progress)
        elif options.protocol == "official":
            results = evaluate_conversations(problems, problems, OFFICIAL, tester, judge, journal, progress)
        else:
            mutated = sampled(problems)
            results = evaluate_conversations(problems, mutated, PAPER, tester, judge, journal, progress)
    return evaluation.report(results)


def _collaboration(options: argparse.Namespace) -> int:
    from codea1_jax.evals.collaboration import evaluate_collaboration
    from codea1_jax.evals.samples import read_programs, read_tests
    from data_pipeline.benchmark import make_benchmark

    evaluation = Evaluation(options, "collaboration")
    coder = evaluation.player("code", read_programs)
    tester = evaluation.player("test", read_tests, "test_")
    with evaluation.judging("problems") as (judge, progress):
        benchmark = make_benchmark(evaluation.problems, judge).within(options.limits)
        results = evaluate_collaboration(benchmark, coder, tester, options.n, judge, evaluation.journal, progress)
    return evaluation.report(results)


def _suites(options: argparse.Namespace) -> int:
    from codea1_jax.evals.samples import read_tests
    from codea1_jax.evals.suites import write_dataset

    evaluation = Evaluation(options, "suites")
    tester = evaluation.player("test", read_tests)
    with evaluation.judging("problems") as (judge, progress):
        results = write_dataset(
            evaluation.problems, tester, options.n, options.wrong_answers, judge, evaluation.journal, progress
        )
    return evaluation.report(results)
