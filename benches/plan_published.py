"""Forecasts next to what others have published, in docs/planning.md: `make plan-published`.

`published.yaml` states each run in this project's terms. A forecast is of the device's time: neither judging nor
whatever else the others' steps wait for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from codea1_jax.cli.plan import progress
from codea1_jax.common.chips import Hardware, find_hardware
from codea1_jax.config import METHODS, Config, load
from codea1_jax.plan.arithmetic.lengths import Lengths
from codea1_jax.plan.arithmetic.planned_run import make_planned_run
from codea1_jax.plan.arithmetic.workload import Group
from codea1_jax.plan.forecast import step_calls
from codea1_jax.plan.plan import limit_seconds, make_plan

RUNS = Path(__file__).with_name("published.yaml")
DOCUMENT = Path(__file__).parents[1] / "docs" / "planning.md"
HEAD = """\
| run | hardware | published, s | forecast, s | limit, s | published / forecast |
| --- | --- | ---: | ---: | ---: | ---: |
"""


@dataclass(frozen=True)
class Published:
    """A run of others. of: what its `seconds` are of. response: tokens of a response: of all, or on average."""

    name: str
    source: str
    of: str
    seconds: float
    preset: str
    response: int
    overrides: Sequence[str]

    @property
    def config(self) -> Config:
        """The same run here."""
        return load(Config, self.preset, self.overrides)

    @property
    def hardware(self) -> Hardware:
        """What it ran on."""
        assert self.config.hardware is not None  # every override names it
        return find_hardware(self.config.hardware)

    @property
    def fill(self) -> float:
        """The mean of what is drawn, as a share of the longest."""
        return self.response / self.config.rollout.code_tokens

    @property
    def lengths(self) -> Lengths | None:
        """Of what a learner is given, whose rows are full; None where responses are drawn."""
        rollout, supervised = self.config.rollout, METHODS[self.config.method.name].supervised
        return {"test": [Group(rollout.test_prompt_tokens, (self.response,))]} if supervised else None

    @property
    def limit(self) -> float:
        """Seconds that no program can undercut."""
        run = make_planned_run(self.config, self.hardware)
        return limit_seconds(run, self.hardware, step_calls(run, self.fill, self.lengths))

    def forecast(self) -> float:
        """Compiles the step; its expected seconds without judging."""
        with progress() as watch:
            plan = make_plan(self.config, self.hardware, self.fill, watch, self.lengths)
        return plan.expected_seconds - plan.judging


def read_published() -> list[Published]:
    """All runs that a forecast is held against."""
    return [Published(**entry) for entry in yaml.safe_load(RUNS.read_text())]


def main() -> None:
    """Writes the table in place of the one that the document has."""
    rows = []
    for run in read_published():
        forecast = run.forecast()
        cells = [f"[{run.name}]({run.source}): {run.of}", run.hardware.name]
        cells += [f"{seconds:.3g}" for seconds in (run.seconds, forecast, run.limit)]
        rows.append(f"| {' | '.join([*cells, f'{run.seconds / forecast:.1f}'])} |\n")
        print(rows[-1], end="", flush=True)
    before, _, rest = DOCUMENT.read_text().partition(HEAD)
    after = rest[rest.index("\n\n") :] if "\n\n" in rest else "\n"
    DOCUMENT.write_text(before + HEAD + "".join(rows).rstrip() + after)


if __name__ == "__main__":
    sys.exit(main())
