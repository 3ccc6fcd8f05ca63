"""`codea1 selftest`: attention's kernels on the machine at hand, at the shapes of the presets."""

import jax

from codea1_jax.common.chips import find_hardware, hardware_of
from codea1_jax.config import Config, load
from codea1_jax.doctor.selftest.checks import Check, Row, perform
from codea1_jax.doctor.selftest.kernels import kernel_checks
from codea1_jax.models.published import QWEN25
from codea1_jax.plan.planned import read_plans
from codea1_jax.plan.planned_run import model_shape
from configs import PAPERS

__all__ = ["Check", "Row", "checks_for", "default_preset", "perform"]

SMALLEST = "micro/a1"


def default_preset() -> str:
    """The first preset that is planned for the devices at hand; the micro world's where there is none."""
    here, plans = hardware_of(jax.devices()), read_plans().plans
    return next((name for name, plan in plans.items() if find_hardware(plan.hardware).is_like(here)), SMALLEST)


def checks_for(config: Config) -> list[Check]:
    """At the shapes of the configuration and of all presets; on a CPU, interpreted, of the configuration alone."""
    device, shapes = jax.devices()[0], list(config.by_model(model_shape).values())
    smallest = model_shape(load(Config, SMALLEST).model)
    others = [] if device.platform == "cpu" else [smallest, *(QWEN25[size] for size in PAPERS)]
    return list(kernel_checks([*shapes, *others], device))
