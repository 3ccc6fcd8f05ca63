"""`codea1 plan`: what a run needs of its accelerators, found out without them."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from codea1_jax.cli._arguments import Commands, add_preset
from codea1_jax.cli._runtime import DONE, FAILED
from codea1_jax.common.errors import UserError

if TYPE_CHECKING:
    from codea1_jax.common.chips import Hardware
    from codea1_jax.config import Config
    from codea1_jax.plan.arithmetic.lengths import Lengths
    from codea1_jax.plan.compiled.compiler import Watch


def add(commands: Commands) -> None:
    """Registers the command."""
    parser = commands.add_parser("plan", help="show whether a run fits some hardware, and how long a step will take")
    add_preset(parser)
    parser.add_argument("--topology", help="v5e:4x4, v5p:2x2x4, h100:8, ...; by default what the preset is made for")
    parser.add_argument(
        "--fill",
        type=_share,
        default=0.25,
        help="mean length of prompts and responses, as a share of the longest (default 0.25)",
    )
    parser.add_argument(
        "--lengths", type=Path, metavar="FILE", help="JSONL of lengths to expect; the least time still goes by --fill"
    )
    parser.add_argument(
        "--search",
        action="store_true",
        help="compile several layouts (mesh, rows, pages, micro-batches, ...) and print the fastest that fits",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
    parser.set_defaults(run=_run)


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share in (0, 1]")
    return share


def _run(options: argparse.Namespace) -> int:
    from codea1_jax.common.chips import find_hardware
    from codea1_jax.config import Config, load
    from codea1_jax.plan.arithmetic.lengths import read_lengths
    from codea1_jax.plan.compiled.compiler import check_compiler

    config = load(Config, options.preset, options.overrides)
    lengths = None if options.lengths is None else read_lengths(options.lengths)
    name = options.topology or config.hardware
    if name is None:
        raise UserError(f"{options.preset} is not made for particular hardware: pass --topology, for example v5e:4x4")
    hardware = find_hardware(name)
    check_compiler(hardware)
    return (_search if options.search else _plan)(options, config, hardware, lengths)


def _plan(options: argparse.Namespace, config: Config, hardware: Hardware, lengths: Lengths | None) -> int:
    from codea1_jax.common.console import print_table
    from codea1_jax.plan.plan import as_document, make_plan
    from codea1_jax.plan.table import conclusion, plan_table

    config, counted_from = with_own_questions(config)
    with progress() as watch:
        plan = make_plan(config, hardware, options.fill, watch, lengths)
    if options.json:
        print(json.dumps(as_document(plan)))
    else:
        print_table(plan_table(plan, f"{options.preset} on {hardware.name}"))
        print("\n".join(conclusion(plan)))
        print(counted_from)
    return DONE if plan.fits else FAILED


def with_own_questions(config: Config) -> tuple[Config, str]:
    """The configuration with the number of questions that its files have, if they are here; and which were counted."""
    from codea1_jax.plan.arithmetic.workload import QUESTIONS
    from codea1_jax.training.sources import count_questions

    data = config.data
    if data.source != "micro" and not Path(data.source).exists():
        paper = f"steps of a run on {data.limit or QUESTIONS:,} of the paper's questions; {data.source} is not here"
        return config, paper
    counts = count_questions(config)
    own = {"limit": counts.train, "heldout_problems": counts.heldout}
    return (
        config.model_copy(update={"data": data.model_copy(update=own)}),
        f"steps of a run on {counts.train:,} questions of {data.source}, {counts.heldout} held out",
    )


def _search(options: argparse.Namespace, config: Config, hardware: Hardware, lengths: Lengths | None) -> int:
    from rich.console import Console

    from codea1_jax.common.console import print_table
    from codea1_jax.config import Config, load
    from codea1_jax.plan.search import search
    from codea1_jax.plan.table import search_table

    def reload(overrides: Sequence[str]) -> Config:
        return load(Config, options.preset, [*options.overrides, *overrides])

    console = Console(stderr=True)
    with console.status("ranking layouts by arithmetic, then compiling the best; minutes each"):
        say = partial(console.print, soft_wrap=True, highlight=False)
        candidates = search(config, hardware, options.fill, reload, say, lengths)
    best = candidates[0]
    if options.json:
        keys = ("overrides", "expected_seconds", "fits")
        rows = [(each.overrides, each.seconds if each.fits else None, each.fits) for each in candidates]
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows]))
    else:
        print_table(search_table(candidates, f"{options.preset} on {hardware.name}"))
        fastest = f"best: {' '.join(map(shlex.quote, best.overrides)) or 'the layout as it is'}"
        none = "none of these fits: take more chips, or shorten rollout.code_tokens and rollout.test_tokens"
        print(fastest if best.fits else none)
    return DONE if best.fits else FAILED


@contextmanager
def progress() -> Iterator[Watch]:
    """A function that shows on standard error which of how many programs is being compiled, and since when."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting the compiler")

        def watch(done: int, total: int, program: str, outcome: str | None) -> None:
            if outcome is not None:
                seconds = bar.tasks[0].elapsed or 0.0
                console.print(f"{done}/{total} {program}: {outcome} ({seconds:.0f} s)", highlight=False)
                return
            if done == 0 and not console.is_terminal:
                console.print(f"{total} programs to compile; the first ones take longest", highlight=False)
            bar.reset(task, description=f"{done + 1}/{total} compiling {program}")

        yield watch
