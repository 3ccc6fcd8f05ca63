"""Rollouts: prompts in, sampled completions and their log-probabilities out.

`sampler` is the door; `schedule` decides on the host which sample sits where, `decode` holds the two programs
of the device, `stacked` and `unrolled` the two forms of their `cache`, `attend` the attention over it, `sampling` the
drawing of tokens.
"""

from codea1_jax.rollout.requests import Capacity, Completion, Request, Sampling
from codea1_jax.rollout.sampler import Counters, Sampler

__all__ = ["Capacity", "Completion", "Counters", "Request", "Sampler", "Sampling"]
