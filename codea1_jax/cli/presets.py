import argparse
import json
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from codea1_jax.cli._runtime import DONE
from codea1_jax.common.console import print_table
from codea1_jax.common.errors import UserError
from codea1_jax.config import preset_names
from codea1_jax.plan.planned import Plans, read_plans
from configs import model_names

NAMES = """\
A preset's name is MODEL/METHOD, or MODEL/METHOD_HARDWARE if it is for specific hardware: 7b/golden_v5p. a1 is
Code-A1; `codea1 presets 1.5b` lists every preset of one model. MODEL/METHOD_paper makes the original's choices where
our defaults differ. Other variants are MODEL/METHOD_VARIANT, MODEL/METHOD_VARIANT_HARDWARE, such as 7b/a1_cispo_v5p or
micro/a1_mutation (docs/method.md explains them; docs/tables.md says which make the paper's tables).

On two CPU cores: micro/a1 trains a tiny model in minutes, smollm2-135m/a1 a pretrained one in hours.
On one GPU of 24 GB: smollm2-135m/a1_gpu, 0.5b/a1_rtx4090x1. For other hardware: `codea1 plan PRESET --topology NAME`.
Hours are forecasts of `codea1 plan` for a whole run, with evaluations and the first start; none has been completed.
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help=f"also every preset of these: {', '.join(model_names())}"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if unknown := [model for model in options.models if model not in model_names()]:
        raise UserError(f"presets: no model {unknown[0]}; there are {', '.join(model_names())}")
    names = [name for name in preset_names() if not options.models or name.partition("/")[0] in options.models]
    plans, keys = read_plans(), ("hours_at_least", "hours_expected")
    hours = {name: dict(zip(keys, plans.hours.get(name, (None, None)), strict=True)) for name in names}
    if options.json:
        print(json.dumps({"compilers": plans.compilers, "presets": hours}))
        return DONE

    print(NAMES)
    print_table(_hardware(options.models or model_names(), plans))
    if options.models:
        for name in names:
            print(name if name not in plans.hours else f"{name:40} {plans.hours[name][1]:7.1f} h")
    return DONE


def _hardware(models: Sequence[str], plans: Plans) -> Table:
    title = f"Hardware, by {plans.compilers}"
    lines = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("preset", "hardware", "GiB/device", "of", "s/step ≥ / expected", "run, h", ""):
        lines.add_column(name, justify="left" if name in ("preset", "hardware", "") else "right")
    for name, plan in plans.plans.items():
        if name.partition("/")[0] in models:
            memory, step = (f"{plan.memory:.1f}", f"{plan.available:.1f}"), f"{plan.seconds:.0f} / {plan.expected:.0f}"
            fits = "fits" if plan.fits else "does not fit"
            lines.add_row(name, plan.hardware, *memory, step, f"{plans.hours[name][1]:.1f}", fits)
    return lines
