"""Forecasts next to what others have published, in docs/planning.md: `make plan-published`, or with RUNS="SGLang-JAX",
which forecasts the runs whose names contain such a word.

`published.yaml` states each run in this project's terms. A forecast is of the device's time: neither judging nor
whatever else the others' steps wait for.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from codea1_jax.cli.plan import progress
from codea1_jax.common.chips import Hardware, find_hardware
from codea1_jax.config import METHODS, Config, load
from codea1_jax.plan.arithmetic.lengths import Lengths
from codea1_jax.plan.arithmetic.planned_run import PlannedRun, make_planned_run
from codea1_jax.plan.arithmetic.workload import Group
from codea1_jax.plan.compiled.compiler import ProgramName, compile_programs
from codea1_jax.plan.forecast import StepCalls, expected_seconds, step_calls
from codea1_jax.plan.plan import limit_seconds

RUNS = Path(__file__).with_name("published.yaml")
DOCUMENT = Path(__file__).parents[1] / "docs" / "planning.md"
HEAD = """\
| run | hardware | published, s | forecast, s | limit, s | published / forecast |
| --- | --- | ---: | ---: | ---: | ---: |
"""


@dataclass(frozen=True)
class Published:
    """A run of others. of: what its `seconds` are of. response: tokens of a response: of all, or on average. serves: it
    only samples, to prompts and responses that are all as long as allowed.
    """

    name: str
    source: str
    of: str
    seconds: float
    preset: str
    response: int
    overrides: Sequence[str]
    serves: bool = False

    @property
    def config(self) -> Config:
        return load(Config, self.preset, self.overrides)

    @property
    def hardware(self) -> Hardware:
        assert self.config.hardware is not None  # every override names it
        return find_hardware(self.config.hardware)

    @property
    def planned(self) -> PlannedRun:
        return make_planned_run(self.config, self.hardware)

    @property
    def lengths(self) -> Lengths | None:
        """Of what a learner is given, whose rows are full, and of what is served; None where responses are drawn."""
        rollout, supervised = self.config.rollout, METHODS[self.config.method.name].supervised
        if supervised:
            return {"test": [Group(rollout.test_prompt_tokens, (self.response,))]}
        return {"code": [Group(rollout.code_prompt_tokens, (self.response,))]} if self.serves else None

    @property
    def step(self) -> StepCalls:
        """What it calls; lengths that are drawn have the mean `response`."""
        step = step_calls(self.planned, self.response / self.config.rollout.code_tokens, self.lengths)
        sampling = {phase: calls for phase, calls in step.calls.items() if phase.is_sampling}
        return StepCalls(sampling, step.sampled) if self.serves else step

    @property
    def limit(self) -> float:
        return limit_seconds(self.planned, self.hardware, self.step)

    def forecast(self) -> float:
        """Compiles the programs that are called; their expected seconds."""
        run, step = self.planned, self.step
        names = [*map(ProgramName, step.calls), *step.smaller_programs(run)]
        with progress() as watch:
            compiled = compile_programs(self.config, self.hardware, names, watch)
        spent = (expected_seconds(run, self.hardware, phase, calls, compiled) for phase, calls in step.calls.items())
        return sum(sum(seconds.values()) for seconds in spent)


def read_published() -> list[Published]:
    return [Published(**entry) for entry in yaml.safe_load(RUNS.read_text())]


def main(words: Sequence[str]) -> None:
    """Writes the table in place of the one that the document has; of runs that are not asked for it keeps the lines."""
    before, _, rest = DOCUMENT.read_text().partition(HEAD)
    table, blank, after = rest.partition("\n\n")
    rows = {name: row for row, name in re.findall(r"^(\| \[(.+?)\]\(.*)$", table, re.MULTILINE)}
    runs = read_published()
    for run in runs:
        if words and not any(word in run.name for word in words):
            continue
        forecast = run.forecast()
        cells = [f"[{run.name}]({run.source}): {run.of}", run.hardware.name]
        cells += [f"{seconds:.3g}" for seconds in (run.seconds, forecast, run.limit)]
        rows[run.name] = f"| {' | '.join([*cells, f'{run.seconds / forecast:.1f}'])} |"
        print(rows[run.name], flush=True)
    DOCUMENT.write_text(before + HEAD + "\n".join(rows[run.name] for run in runs if run.name in rows) + blank + after)


if __name__ == "__main__":
    main(sys.argv[1:])
