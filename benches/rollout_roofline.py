"""How near decoding comes to the memory's bandwidth, on an accelerator."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from codea1_jax.models.published import QWEN25
from codea1_jax.models.qwen2 import Qwen2, init_params
from codea1_jax.rollout import Capacity, Request, Sampler, Sampling

SEQUENCES, PROMPT, RESPONSE = 256, 256, 512


def measured_bandwidth() -> float:
    """Bytes per second of reading and writing a gigabyte."""
    x = jnp.zeros(2**28, jnp.float32)
    add = jax.jit(lambda x: x + 1)
    add(x).block_until_ready()
    started = time.perf_counter()
    for _ in range(20):
        x = add(x)
    x.block_until_ready()
    return 20 * 2 * x.nbytes / (time.perf_counter() - started)


def bandwidth_share() -> float:
    """Bytes that a step must read (parameters, prompts and responses so far) per second of decoding, over the above.

    Groups of 8 share a prompt, so it is read once for the 8.
    """
    config = QWEN25["1.5b"]
    model = Qwen2(config, jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.bfloat16))
    params = init_params(model, jax.random.key(0))
    capacity = Capacity.for_slots(SEQUENCES // 8, 8, (PROMPT,), (RESPONSE,), block=64, prefill_tokens=8192)
    random = np.random.default_rng(0)
    requests = [
        Request(tuple(random.integers(3, config.vocab_size, PROMPT).tolist()), (i,), 8) for i in range(SEQUENCES // 8)
    ]
    sampler = Sampler(model, eos_ids=(-1,), pad_id=0, seed=0, capacity=capacity)

    def seconds(tokens: int) -> float:
        started = time.perf_counter()
        list(sampler.generate(params, requests, Sampling(tokens)))
        return time.perf_counter() - started

    seconds(RESPONSE)
    decoding = seconds(RESPONSE) - seconds(1)
    weights = sum(x.nbytes for x in jax.tree.leaves(params))
    column = 2 * config.num_layers * config.num_kv_heads * config.head_dim * 2  # keys and values, two bytes each
    read = weights + column * (SEQUENCES // 8 * PROMPT + SEQUENCES * RESPONSE / 2)
    return (RESPONSE - 1) * read / decoding / measured_bandwidth()
