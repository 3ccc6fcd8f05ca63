import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from codea1_jax.cli._arguments import add_preset
from codea1_jax.cli._runtime import DONE, FAILED
from codea1_jax.common.chips import Hardware, find_hardware
from codea1_jax.common.console import print_table
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, load
from codea1_jax.plan.compiler import check_compiler
from codea1_jax.plan.memory import refuse_what_cannot_fit
from codea1_jax.plan.plan import as_document, make_plan
from codea1_jax.plan.planned import read_plans
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.search import search
from codea1_jax.plan.table import conclusion, plan_table, summary
from codea1_jax.plan.workload import QUESTIONS
from codea1_jax.training.sources import count_questions

FILL = 0.25  # by which the shipped plans were made


def add(parser: argparse.ArgumentParser) -> None:
    add_preset(parser)
    parser.add_argument("--topology", help="v5e:4x4, v5p:2x2x4, h100:8, ...; by default what the preset is made for")
    parser.add_argument(
        "--fill",
        type=_share,
        default=FILL,
        help="mean length of prompts and responses, as a share of the longest (default 0.25)",
    )
    parser.add_argument(
        "--search",
        action="store_true",
        help="compile several layouts (mesh, rows, pages, micro-batches, ...) and print the fastest that fits",
    )
    parser.add_argument(
        "--compile", action="store_true", help="compile a preset even if its plan is shipped, as --json does"
    )
    parser.add_argument("--price", type=float, help="what an hour of all the hardware costs, to print a run's cost")
    parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
    parser.set_defaults(run=_run)


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share in (0, 1]")
    return share


def _run(options: argparse.Namespace) -> int:
    config = load(Config, options.preset, options.overrides)
    name = options.topology or config.hardware
    if name is None:
        raise UserError(f"{options.preset} is not made for particular hardware: pass --topology, for example v5e:4x4")
    hardware = find_hardware(name)
    plans = read_plans()
    shipped = plans.plans.get(options.preset)
    changed = options.overrides or options.fill != FILL or options.search or options.compile or options.json
    if shipped is not None and shipped.hardware == hardware.name and not changed:
        print("\n".join(summary(options.preset, plans)))
        _print_cost(options, plans.hours[options.preset][1])
        return DONE if shipped.fits else FAILED
    refuse_what_cannot_fit(make_planned_run(config, hardware), hardware)
    check_compiler(hardware)
    return (_search if options.search else _plan)(options, config, hardware)


def _plan(options: argparse.Namespace, config: Config, hardware: Hardware) -> int:
    config, counted_from = with_own_questions(config)
    report("compiling phase by phase; if interrupted, repeat the command: finished phases are in .cache/plan")
    plan = make_plan(config, hardware, options.fill, report)
    if options.json:
        print(json.dumps(as_document(plan)))
    else:
        print_table(plan_table(plan, f"{options.preset} on {hardware.name}"))
        print("\n".join(conclusion(plan)))
        print(counted_from)
        if plan.fits:
            _print_cost(options, plan.whole.seconds / 3600)
    return DONE if plan.fits else FAILED


def _print_cost(options: argparse.Namespace, hours: float) -> None:
    if options.price is not None:
        print(f"at {options.price:g} an hour: {options.price * hours:,.2f} for the {hours:.1f} h expected")


def with_own_questions(config: Config) -> tuple[Config, str]:
    """The configuration with the number of questions that its files have, if they are here; and which were counted."""
    data = config.data
    if data.source != "micro" and not Path(data.source).exists():
        paper = f"steps of a run on {data.limit or QUESTIONS:,} of the paper's questions; {data.source} is not here"
        return config, paper
    train, heldout = count_questions(config)
    own = data.model_copy(update={"limit": train, "heldout_problems": heldout})
    counted_from = f"steps of a run on {train:,} questions of {data.source}, {heldout} held out"
    return config.model_copy(update={"data": own}), counted_from


def _search(options: argparse.Namespace, config: Config, hardware: Hardware) -> int:
    def reload(overrides: Sequence[str]) -> Config:
        return load(Config, options.preset, [*options.overrides, *overrides])

    print("ranking layouts by arithmetic, then compiling the best; minutes each", file=sys.stderr)
    candidates = search(config, hardware, options.fill, reload, report)
    best = candidates[0]
    if options.json:
        seconds = [(each.overrides, each.seconds if each.fits else None) for each in candidates]
        print(json.dumps([{"overrides": layout, "expected_seconds": step} for layout, step in seconds]))
    else:
        fastest = f"best: {' '.join(map(shlex.quote, best.overrides)) or 'the layout as it is'}"
        none = "none of these fits: take more chips, or shorten rollout.code_tokens and rollout.test_tokens"
        print(fastest if best.fits else none)
    return DONE if best.fits else FAILED


def report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
