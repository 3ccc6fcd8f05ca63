import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from codea1_jax.cli._arguments import add_judge, blamed_on, positive
from codea1_jax.cli._evaluation import draw_from, make_pool
from codea1_jax.cli._output import say
from codea1_jax.cli._runtime import DONE
from codea1_jax.common.console import progress_bar
from codea1_jax.common.words import counted
from codea1_jax.evals.collaboration import Survivor, solve
from codea1_jax.run.rundir import find_run
from data_pipeline import Problem, problem_files
from data_pipeline.problem import visible


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a question as text, with a signature unless it asks for a program; or JSONL of problems",
    )
    model = "a run's directory, a Hugging Face directory, a Hub id, or http://host:port"
    parser.add_argument("--model", required=True, help=f"the Code LLM: {model}")
    parser.add_argument("--test-model", help="the Test LLM; default: as --model")
    parser.add_argument("--n", type=positive, default=8, help="programs that are drawn; default: %(default)s")
    parser.add_argument("--temperature", type=float, default=0.7, help="default: %(default)s")
    parser.add_argument("--top-p", type=float, default=0.95, help="default: %(default)s")
    parser.add_argument("--max-tokens", type=positive, default=4096, help="longest response; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    add_judge(parser)
    parser.add_argument("--json", action="store_true", help="print every program and the tests that kill it, as JSON")
    as_in_the_run = dict.fromkeys(("served_model", "test_served_model", "reading", "templates", "dtype"))
    parser.set_defaults(run=_run, **as_in_the_run)


def _run(options: argparse.Namespace) -> int:
    with blamed_on("FILE"):
        problems = problem_files.asked(options.file)
    options.test_model = options.test_model or options.model
    solved, one = {}, options.test_model == options.model and find_run(options.model) is None
    with progress_bar("solve"), make_pool(options) as judge:
        coder = draw_from(options, "code")
        tester = coder if one else draw_from(options, "test", "test_")
        for problem in problems:
            survivors = solved[problem.id] = solve(problem, coder, tester, options.n, judge)
            if not options.json:
                say(f"{problem.id}: {_explained(problem, survivors)}")
                program = survivors[0].program.rstrip("\n")
                print(visible(program) if sys.stdout.isatty() else program)
    if options.json:
        print(json.dumps({name: [asdict(each) for each in survivors] for name, survivors in solved.items()}))
    return DONE


def _explained(problem: Problem, survivors: Sequence[Survivor]) -> str:
    first, *others = survivors
    tests = first.passed + len(first.killed_by)
    drawn = f"drawn {counted(first.copies, 'time')}"
    if not tests:
        hint = "" if problem.entry_point else "; a line `def NAME(...)` would ask for a function, not a whole program"
        return f"the Test LLM wrote no test that can be read; this program was {drawn}{hint}"
    doubt = "; no program passes all, so this one is probably wrong, or the tests are" if first.killed_by else ""
    lines = [f"passes {first.passed} of {counted(tests, 'test')}, {drawn}{_killers(first)}{doubt}"]
    for number, other in enumerate(others, start=2):
        lines.append(f"  program {number} passes {other.passed}{_killers(other)}")
    return "\n".join(lines)


def _killers(program: Survivor) -> str:
    killers = "; ".join(test.replace("\n", " ") for test in program.killed_by[:3])
    more = f", and {len(program.killed_by) - 3} more" if len(program.killed_by) > 3 else ""
    return f", killed by {killers}{more}" if killers else ""
