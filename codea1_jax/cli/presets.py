"""`codea1 presets`: what can be trained out of the box, and which rows of the paper's tables it makes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from typing import TYPE_CHECKING, Any

from codea1_jax.cli._arguments import Commands
from codea1_jax.cli._runtime import DONE
from codea1_jax.common.errors import UserError
from configs import MICROS, PAPERS, hardware_names, model_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from codea1_jax.plan.planned import Plans
    from codea1_jax.reproduce.published import Choices, Published

    Tables = Mapping[str, Published]

NAMES = """\
A preset's name is MODEL/METHOD; for hardware that it is laid out for, MODEL/METHOD_HARDWARE: 7b/golden_v5p. a1 is
Code-A1; `codea1 presets 1.5b` lists every method of one model, by the rows of the paper's tables. By another policy
gradient, value of tests or choice of questions: MODEL/METHOD_VARIANT, MODEL/METHOD_VARIANT_HARDWARE, such as
7b/a1_cispo_v5p or micro/a1_mutation (docs/method.md lists them).

On two CPU cores: micro/a1, in minutes, a model made here; smollm2-135m/a1, in hours, a pretrained one.
On one GPU of 24 GB: smollm2-135m/a1_gpu, 0.5b/a1_rtx4090x1. For other hardware: `codea1 plan PRESET --topology NAME`.
"""
EXPLAINED = """\
MODEL/METHOD_paper and MODEL/METHOD_paper_HARDWARE make the original's choices where our defaults differ. Figures are
the paper's, in percent; two of its tables disagree about 1.5b/a1, by more than a point of MBPP+. Hours are those that
`codea1 plan` expects of a run, evaluations and the first start included; none of it has been run. "open" names what the
paper leaves open of a row, or its code does otherwise whatever the preset; the end of this list explains it. Only the
presets of 1.5b, 3b and 7b are the paper's.
"""


def add(commands: Commands) -> None:
    """Registers the command."""
    parser = commands.add_parser("presets", help="list the shipped presets, by the rows of the paper's tables")
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help=f"also every method of these: {', '.join(model_names())}"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from codea1_jax.config import preset_names
    from codea1_jax.config.presets import PAPER
    from codea1_jax.plan.planned import read_plans
    from codea1_jax.reproduce.published import choices, published

    if unknown := [model for model in options.models if model not in model_names()]:
        raise UserError(f"presets: no model {unknown[0]}; there are {', '.join(model_names())}")
    models = options.models or model_names()
    opened = choices()
    names = tuple(name for name in preset_names() if not options.models or name.partition("/")[0] in models)
    plans, tables = read_plans(), published()
    if options.json:
        print(json.dumps(document(names, models, plans, tables, opened)))
        return DONE

    from codea1_jax.common.console import print_table

    print(NAMES)
    print_table(_hardware(models, plans))
    if not options.models:
        return DONE
    print(f"\n{EXPLAINED}")
    for each in tables.values():
        print_table(_rows(each, models, plans, opened))
        print()
    print_table(_open(tables, opened))
    print()
    methods = {method for table in tables.values() for row in table.rows.values() for method in row}
    endings = {"", f"_{PAPER}", *(f"_{kind}" for kind in hardware_names())}
    endings |= {f"_{PAPER}_{kind}" for kind in hardware_names()}
    shown = {f"{model}/{method}{end}" for model in models for method in methods for end in endings}
    if others := [name for name in names if name not in shown or (name.startswith("micro/") and name.endswith(PAPER))]:
        print(f"In no table: {', '.join(others)}")
    return DONE


def document(
    names: Sequence[str], models: Sequence[str], plans: Plans, tables: Tables, opened: Choices
) -> dict[str, Any]:
    """For machines: every preset with its hours, null where it is for no hardware; every row with its presets.

    choices: by row what the paper leaves open of it, and what is chosen here; empty where the paper states it fully.
    """
    unknown = (None, None)
    return {
        "compilers": plans.compilers,
        "presets": {
            name: dict(zip(("hours_at_least", "hours_expected"), plans.hours.get(name, unknown), strict=True))
            for name in names
        },
        "tables": {
            name: {
                row: {
                    model: {
                        "presets": [f"{model}/{method}" for method in methods],
                        "paper": table.models.get(model, {}).get(row),
                    }
                    for model in models
                }
                for row, methods in table.rows.items()
            }
            for name, table in tables.items()
        },
        "choices": {
            name: {row: [asdict(choice) for choice in opened.of_row(methods)] for row, methods in table.rows.items()}
            for name, table in tables.items()
        },
    }


def _table(title: str, left: Sequence[str], right: Sequence[str], last: str) -> Table:
    """An empty table whose columns are aligned to the left, to the right, and the last one again to the left."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in left:
        table.add_column(name, no_wrap=name == "preset")
    for name in right:
        table.add_column(name, justify="right")
    table.add_column(last)
    return table


def _open(tables: Tables, opened: Choices) -> Table:
    """What the paper leaves open, or its code does otherwise, and what is chosen here."""
    lines = _table(
        "What the paper leaves open, or its code does otherwise", ("open", "in the paper and its code"), (), "here"
    )
    rows = (methods for table in tables.values() for methods in table.rows.values())
    for choice in dict.fromkeys(choice for methods in rows for choice in opened.of_row(methods)):
        lines.add_row(choice.name, choice.open, choice.here)
    return lines


def _rows(table: Published, models: Sequence[str], plans: Plans, opened: Choices) -> Table:
    """A table of the paper: a line for every row and model."""
    from codea1_jax.config import preset_names

    pretrained = [model for model in models if model not in MICROS]
    kinds = hardware_names() if pretrained else ()
    kinds = [kind for kind in kinds if all(f"{model}/a1_{kind}" in preset_names() for model in pretrained)]
    figures = " / ".join(table.columns) or "the paper's"
    lines = _table(table.title, ("row", "preset"), (figures, *(f"{kind}, h" for kind in kinds)), "open")
    for model in models:
        for row, methods in table.rows.items():
            names = list(dict.fromkeys(f"{model}/{method}" for method in methods))
            figures = " / ".join(f"{figure:.2f}" for figure in table.models.get(model, {}).get(row, ())) or "–"
            missing = ", ".join(choice.name for choice in opened.of_row(methods)) or "nothing"
            hours = (_hours(names, kind, plans) for kind in kinds)
            lines.add_row(row, " ".join(names), figures, *hours, missing if model in PAPERS else "–")
        lines.add_section()
    return lines


def _hours(names: list[str], kind: str, plans: Plans) -> str:
    """Hours that training all of them on this kind of hardware is expected to take."""
    hours = [plans.hours[f"{name}_{kind}"][1] for name in names if f"{name}_{kind}" in plans.hours]
    return f"{sum(hours):.1f}" if hours else "–"


def _hardware(models: Sequence[str], plans: Plans) -> Table:
    """What the presets are laid out for, and whether the compiler has confirmed that it is enough."""
    from codea1_jax.config import Config, load, preset_names

    title = f"Hardware, by {plans.compilers}" if plans.compilers else "Hardware"
    lines = _table(title, ("presets", "hardware"), ("GiB/device", "of", "step s least / expected", "a1, h"), "")
    for model, method, kind in product(models, ("a1", "a1_lora"), hardware_names()):
        preset, names = f"{model}/{method}_{kind}", f"{model}/{'…' if method == 'a1' else method}_{kind}"
        if preset not in preset_names():
            continue
        plan = plans.plans.get(preset)
        if plan is None:
            lines.add_row(names, load(Config, preset).hardware, "", "", "", "", "no plan has been compiled yet")
            continue
        step = f"{plan.seconds:.0f} / {plan.expected:.0f}"
        fits = "fits" if plan.fits else "does not fit"
        memory, hours = (f"{plan.memory:.1f}", f"{plan.available:.1f}"), _hours([f"{model}/{method}"], kind, plans)
        lines.add_row(names, plan.hardware, *memory, step, hours, fits)
    return lines
