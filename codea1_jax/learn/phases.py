"""The jitted functions that a learner is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Jitted = Any  # jax.jit's result has no public type


@dataclass(frozen=True)
class Phases:
    """Called with arrays, they compute; lowered from placed shapes, they show what a device would have to do.

    `trained` are parameters or adapters, `base` what adapters are added to, None where there are none.

    init: parameters -> a new state.
    empty: trained -> what is accumulated over no micro-batch.
    accumulate: (accumulated, trained, batch, normalizer, base) -> accumulated; the first is donated.
    apply: (state, every replica's gradient) -> (state, their sum's norm); the first is donated.
    logprobs: (parameters, batch) -> those of the batch's targets.
    freeze: trained -> a reference.
    """

    init: Jitted
    empty: Jitted
    accumulate: Jitted
    apply: Jitted
    logprobs: Jitted
    freeze: Jitted
