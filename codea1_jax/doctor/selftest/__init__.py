"""`codea1 selftest`: proves the machine at hand, before a run is paid for.

kernels   attention's kernels against a reference in full precision, at the shapes of the presets
learning  a gradient twice, the sampler against the learner, a save and a resume
machine   collectives, each phase's seconds and memory against the forecast, the judge
"""

from codea1_jax.doctor.selftest.checks import Check, Row, perform
from codea1_jax.doctor.selftest.plan import checks_for, default_preset

__all__ = ["Check", "Row", "checks_for", "default_preset", "perform"]
