import argparse
from collections.abc import Callable, Sequence
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any

from codea1_jax.cli._arguments import add_judge
from codea1_jax.cli._evaluation import PROTOCOLS, Drawing, Evaluation
from codea1_jax.common.errors import UserError
from codea1_jax.config import EvalConfig
from codea1_jax.evals.code import evaluate_code
from codea1_jax.evals.collaboration import evaluate_collaboration
from codea1_jax.evals.heldout import evaluate_tests, prepare
from codea1_jax.evals.journal import Journal
from codea1_jax.evals.paper import evaluate_conversations, mutated_functions
from codea1_jax.evals.samples import RESPONSES_FILE, read_programs, read_tests
from codea1_jax.evals.suites import write_dataset
from codea1_jax.game.players import Player
from codea1_jax.training.answers import suite_size
from codea1_jax.training.mutants import with_mutants
from codea1_jax.training.questions import HELDOUT_MUTANTS
from codea1_judge.cli import positive
from data_pipeline import Problem
from data_pipeline.benchmark import make_benchmark
from data_pipeline.validate import failures
from sandbox import Judge

_PROGRAMS = "programs: a file of evalplus' or bigcodebench's form, or 'reference' for the data's own"
_TESTS = "tests: JSONL of {task_id, tests}, or 'reference' for the data's own"


def add(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(required=True, metavar="COMMAND")

    code = kinds.add_parser("code", help="programs: HumanEval+, MBPP+, BigCodeBench, or any problems with tests")
    _add_source(code, _PROGRAMS)
    _add_count(code, "programs", 32)
    code.add_argument(
        "--difficulty", action="append", metavar="NAME", help="problems that are rated so; may be repeated"
    )
    for name, which in (("since", "first"), ("until", "last")):
        code.add_argument(
            f"--{name}", type=_day, metavar="DAY", help=f"the {which} day of publication, such as 2024-08-31"
        )
    _add_limits(code)
    _add_common(code, _code)

    tests = kinds.add_parser("tests", help="tests: of your questions, or of UnLeakedTestBench as the paper scores them")
    _add_source(tests, _TESTS)
    tests.add_argument(
        "--protocol",
        choices=tuple(PROTOCOLS),
        default="heldout",
        help="heldout: suites, scored as training scores them on held-out questions; paper: test functions from one "
        "conversation, read and scored as by the authors of Code-A1; default: %(default)s",
    )
    _add_common(tests, _tests, "paper")

    both = kinds.add_parser("collaboration", help="of N programs, the one that passes the most generated tests")
    _add_source(both, _PROGRAMS)
    _add_source(both, _TESTS, "test-")
    _add_count(both, "programs", 32)
    _add_limits(both)
    _add_common(both, _collaboration)

    suites = kinds.add_parser("suites", help="write a Test LLM's tests as golden tests of the problems, to train on")
    _add_source(suites, _TESTS)
    _add_count(suites, "suites", 1)
    _add_common(suites, _suites)


def _add_source(parser: argparse.ArgumentParser, samples: str, prefix: str = "") -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(f"--{prefix}samples", metavar="FILE", help=samples)
    source.add_argument(
        f"--{prefix}model", help="a Hugging Face directory, a run's directory, a Hub id, or http://host:port"
    )
    parser.add_argument(f"--{prefix}served-model", help="which model of an endpoint; default: the first it serves")


def _add_count(parser: argparse.ArgumentParser, drawn: str, default: int) -> None:
    parser.add_argument("--n", type=positive, default=default, help=f"{drawn} drawn per problem; default: %(default)s")


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
    parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int], protocol: str | None = None
) -> None:
    """Data, sampling, where results go, and what runs the command. protocol: one that draws samples otherwise."""
    parser.add_argument("--data", required=True, help="file, folder, or dataset of the Hub")
    for name, kind in zip(Drawing._fields, (float, float, int), strict=True):
        shown = f"default: {getattr(Drawing(), name)}"
        shown += f"; with --protocol {protocol}: {getattr(PROTOCOLS[protocol], name)}" if protocol else ""
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
        "default: bfloat16, on a CPU float32 unless the parameters are kept in bfloat16",
    )
    add_judge(parser)
    parser.add_argument("--out", type=Path, help="folder of the evaluation, to resume it too; default: below runs/")
    parser.add_argument("--json", action="store_true", help="print nothing but the results, on one line")
    parser.set_defaults(run=run)


def _code(options: argparse.Namespace) -> int:
    evaluation = Evaluation(options, "code")
    coder = evaluation.player("code", read_programs)
    with evaluation.judging("problems") as (judge, progress):
        benchmark = make_benchmark(evaluation.problems, judge, progress).within(options.limits)
        results = evaluate_code(benchmark, coder, options.n, judge, evaluation.journal, progress)
    return evaluation.report(results)


def _tests(options: argparse.Namespace) -> int:
    evaluation = Evaluation(options, "tests")
    problems = evaluation.problems
    if options.protocol == "heldout" and any(problem.source == "ult" for problem in problems):
        raise UserError("--protocol: UnLeakedTestBench's functions run below its scripts' imports; choose paper")
    tester = evaluation.player("test", read_tests)
    with evaluation.judging("functions") as (judge, progress):
        if options.protocol == "heldout":
            progress(0, len(problems))
            evaluation.journal.rewrite(RESPONSES_FILE, ())  # it starts over
            results = _heldout(problems, tester, options.model, judge, evaluation.journal)
        else:
            mutated = mutated_functions(problems)
            results = evaluate_conversations(problems, mutated, tester, judge, evaluation.journal, progress)
    return evaluation.report(results)


def _heldout(
    problems: Sequence[Problem], tester: Player, model: str | None, judge: Judge, journal: Journal
) -> dict[str, Any]:
    reasons = dict(zip(problems, failures(problems, judge), strict=True))
    sound = [problem for problem, reason in reasons.items() if reason is None]
    heldout = prepare(with_mutants(sound, judge, HELDOUT_MUTANTS, 0), judge)
    scored = {problem.id for problem in heldout.problems}
    unsound = {
        p.id: reason or "it has no call that can be scored" for p, reason in reasons.items() if p.id not in scored
    }
    suites = EvalConfig().suites
    metrics, judged = evaluate_tests(tester, judge, heldout, suites, suite_size(model), ()) if scored else ({}, [])
    journal.rewrite("tests.jsonl", chain.from_iterable(known.lines() for known in judged))
    figures: dict[str, Any] = {"problems": len(problems), "sound": len(scored)}
    for name in [name for name in metrics if not name.endswith(("_low", "_high"))]:
        ends = {"value": metrics[name], **{end: metrics.get(f"{name}_{end}") for end in ("low", "high")}}
        figures[name.removeprefix("eval/")] = metrics[name] if ends["low"] is None else ends
    return {"benchmarks": {"tests": figures}, "unsound": unsound}


def _collaboration(options: argparse.Namespace) -> int:
    evaluation = Evaluation(options, "collaboration")
    coder = evaluation.player("code", read_programs)
    tester = evaluation.player("test", read_tests, "test_")
    with evaluation.judging("problems") as (judge, progress):
        benchmark = make_benchmark(evaluation.problems, judge, progress).within(options.limits)
        results = evaluate_collaboration(benchmark, coder, tester, options.n, judge, evaluation.journal, progress)
    return evaluation.report(results)


def _suites(options: argparse.Namespace) -> int:
    evaluation = Evaluation(options, "suites")
    tester = evaluation.player("test", read_tests)
    with evaluation.judging("problems") as (judge, progress):
        results = write_dataset(evaluation.problems, tester, options.n, judge, evaluation.journal, progress)
    return evaluation.report(results)
