"""Plans hardware presets and writes docs/plan.md: `make plan-all`, or `make plan-all PRESETS="1.5b/a1_v5e"`.

Those of the paper's own method stand for all others on the same hardware, which need no more. A compile takes minutes;
the document is written anew after every preset.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from codea1_jax.cli.plan import progress
from codea1_jax.config import Config
from codea1_jax.plan.hardware import find_hardware
from codea1_jax.plan.plan import Plan, make_plan
from codea1_jax.plan.table import conclusion, markdown, markdown_phases, rich_table
from codea1_jax.run.config import load, preset_names

DOCUMENT = Path(__file__).parents[1] / "docs" / "plan.md"
FILL = 0.25  # mean length of prompts and responses, as a share of the longest allowed
HEAD = f"""# Hardware presets, planned

Written by `make plan-all`. TPU presets are compiled by libtpu for their topology, at the longest prompts and responses
allowed; GPU presets are estimated by arithmetic alone. Two policies and their two optimizers stay in memory throughout,
with the one frozen reference that both policies start from. Times are floors: what the chips could do at the very best,
with prompts and responses at {FILL:.0%} of the longest on average, judging left out.

"""


def main(names: list[str]) -> int:
    """Plans the named presets, or all; 1 if one does not fit."""
    names = names or [name for name in preset_names() if name.split("/")[1].startswith("a1_")]
    console, plans = Console(stderr=True), []
    for name in names:
        config = load(Config, name)
        if config.hardware is None:
            continue
        with progress() as watch:
            plan = make_plan(config, find_hardware(config.hardware), FILL, watch)
        plans.append((name, plan))
        console.print(rich_table(plan, f"{name} on {config.hardware}"), *conclusion(plan), sep="\n")
        write(plans)
    return int(not all(plan.fits for _, plan in plans))


def write(plans: list[tuple[str, Plan]]) -> None:
    """The document, with all that is planned so far."""
    DOCUMENT.parent.mkdir(exist_ok=True)
    phases = "\n".join(f"## {name}\n\n{markdown_phases(plan)}" for name, plan in plans)
    DOCUMENT.write_text(f"{HEAD}{markdown(plans)}\n{phases}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
