"""What more slices, or more nodes, make of a step: a plan's programs, repeated side by side.

Each copy of the planned hardware holds both policies and takes its share of the step's rows, prompts and micro-batches,
with the very programs that were compiled for one. What does not shrink is counted: responses that outlast the others;
micro-batches that are partly empty; the host, as every host decides for all rows; and the gradients, which cross the
network between copies before every update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from codea1_jax.chips import GPUS_PER_HOST, Hardware
from codea1_jax.config import Config
from codea1_jax.plan.arithmetic.lengths import Lengths
from codea1_jax.plan.arithmetic.planned_run import make_planned_run
from codea1_jax.plan.arithmetic.workload import PlannedRun, is_sampling
from codea1_jax.plan.calibration import ratio_of
from codea1_jax.plan.compiled.compiler import Compiled
from codea1_jax.plan.compiled.duration import efficiency_of
from codea1_jax.plan.forecast import StepCalls, expected_seconds, judging_seconds, scoring_seconds, step_calls
from codea1_jax.plan.plan import Plan


@dataclass(frozen=True)
class Scaled:
    """A step on some copies of the planned hardware.

    seconds: expected, by what they are spent on: sampling, learning, network, host, judging. longest: of them, what the
    longest response of each role takes by itself, which no chip shortens.
    """

    copies: int
    devices: int
    seconds: Mapping[str, float]
    longest: float

    @property
    def step_seconds(self) -> float:
        """The whole step."""
        return sum(self.seconds.values())

    @property
    def device_hours(self) -> float:
        """What a step costs: times the price of a device's hour."""
        return self.devices * self.step_seconds / 3600

    def busy(self, one: Scaled) -> float:
        """How much of its time a device does what one copy would have it do."""
        return one.device_hours / self.device_hours

    def lost_to(self, one: Scaled) -> str:
        """The part that costs most device hours beyond those of one copy."""
        return max(self.seconds, key=lambda part: self.devices * self.seconds[part] - one.devices * one.seconds[part])


def scale(plan: Plan, copies: Sequence[int], lengths: Lengths | None = None) -> list[Scaled]:
    """The step of a plan that fits, on each number of copies; `lengths` as the plan was made with."""
    return [_scaled(plan, count, lengths) for count in copies]


def _scaled(plan: Plan, copies: int, lengths: Lengths | None) -> Scaled:
    hardware = replace(plan.hardware, devices=copies * plan.hardware.devices)
    run = make_planned_run(_repeated(plan.run.config, plan.hardware, copies), hardware)
    step = step_calls(run, plan.fill, lengths)
    seconds: dict[str, float] = dict.fromkeys(("sampling", "learning", "network", "host"), 0.0)
    for phase in step.calls:
        spent = expected_seconds(phase, step, plan.compiled, run, hardware, ratio_of(phase, plan.ratios)) or {}
        seconds["host"] += spent.get("host", 0.0)
        part = "sampling" if is_sampling(phase) else "learning"
        seconds[part] += sum(took for resource, took in spent.items() if resource != "host")
    seconds["network"] = _network_seconds(run, plan.hardware, step, copies)
    seconds["host"] += scoring_seconds(step)
    seconds["judging"] = judging_seconds(run.config, hardware, seconds["learning"])
    return Scaled(copies, hardware.devices, seconds, _longest_seconds(plan, step))


def _repeated(config: Config, hardware: Hardware, copies: int) -> Config:
    """The configuration for that many copies, each of which has as many rows and pages as before."""
    replica, fsdp, tensor = config.mesh.shape(hardware.devices)
    mesh = config.mesh.model_copy(update={"replica": replica * copies, "fsdp": fsdp, "tensor": tensor})
    return config.model_copy(update={"mesh": mesh})


def _network_seconds(run: PlannedRun, one: Hardware, step: StepCalls, copies: int) -> float:
    """Seconds in which gradients are summed over the copies: before every update, each device its own part."""
    within_node = not one.is_tpu and copies * one.devices <= GPUS_PER_HOST
    bandwidth = one.chip.interconnect if within_node else one.chip.network
    updates = sum(sum(shapes.values()) for phase, shapes in step.calls.items() if phase.startswith("update"))
    received = 2 * (copies - 1) / copies * run.kept
    return updates * received / (bandwidth * efficiency_of(one).interconnect)


def _longest_seconds(plan: Plan, step: StepCalls) -> float:
    block, total = plan.run.config.rollout.block, 0.0
    for role, groups in step.groups.items():
        programs = [found for name, found in plan.compiled.items() if name.phase == f"decode {role}"]
        fastest = min(program.seconds for program in programs if isinstance(program, Compiled))  # of the fewest rows
        taken = fastest * ratio_of(f"decode {role}", plan.ratios)
        total += max(length for group in groups for length in group.responses) / block * taken
    return total
