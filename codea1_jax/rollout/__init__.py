"""Rollouts: prompts in, sampled completions and their log-probabilities out.

`sampler` is the door; `schedule` decides on the host which sample sits where, `decode` holds the two programs
of the device, `cache` the keys and values and the attention over them, `sampling` the drawing of tokens.
"""

from codea1_jax.rollout.requests import Capacity, Completion, Request, Sampling
from codea1_jax.rollout.sampler import Counters, Sampler

__all__ = ["Capacity", "Completion", "Counters", "Request", "Sampler", "Sampling"]
