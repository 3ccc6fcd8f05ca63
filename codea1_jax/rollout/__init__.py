"""Rollouts: prompts in, sampled completions and their log-probabilities out.

`sampler` is the entry point; `schedule` decides on the host which sample sits in which row and owns which pages of the
`cache`, `decode` holds the two programs of the device, `readers` how they read pages (`paged_tpu` and `paged_gpu` are
kernels), `attend` how the parts of an attention make a whole, `sampling` the drawing of tokens.
"""

from codea1_jax.rollout.capacity import Capacity
from codea1_jax.rollout.requests import Completion, Request, Sampling
from codea1_jax.rollout.sampler import Sampler

__all__ = ["Capacity", "Completion", "Request", "Sampler", "Sampling"]
