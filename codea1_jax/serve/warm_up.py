"""Every program that requests can need, compiled before the first of them comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from codea1_jax.console import ShowProgress
from codea1_jax.models.qwen2 import Params
from codea1_jax.rollout.jetstream.engine import JetStreamEngine, Prompt, SampleKeys
from codea1_jax.rollout.requests import Capacity, Sampling

_ONE_TOKEN = SampleKeys(Sampling(1), np.zeros((1, 2), np.uint32))


def warm_up(
    engine: JetStreamEngine, params: Params, capacity: Capacity, show: ShowProgress, stopped: Callable[[], bool]
) -> None:
    """Prefills a prompt of every bucket and decodes a token with every number of columns, unless `stopped`.

    The cache that this takes is freed before the Driver makes its own.
    """
    responses = [capacity.columns(1, bucket - capacity.block)[1] for bucket in capacity.response_buckets]
    columns = list(product(capacity.prompt_page_buckets, responses))
    total = len(capacity.prompt_buckets) + len(columns)
    for done, note in enumerate(_programs(engine, params, capacity.prompt_buckets, columns)):
        show(done, total, note)
        if stopped():
            return
    show(total, total)


def _programs(
    engine: JetStreamEngine, params: Params, lengths: Sequence[int], columns: Sequence[tuple[int, int]]
) -> Iterator[str]:
    """Runs one program after each pause, whose value names it."""
    state = engine.init_decode_state()
    for length in lengths:
        yield "prefill"
        prompt = Prompt(np.zeros(length, np.int32), _ONE_TOKEN)
        prefix = engine.prefill(params=params, padded_tokens=prompt, true_length=length)
        state = engine.insert(prefix, state, slot=0)
    for each in columns:
        yield "decode"
        state, _ = engine.generate(params, replace(state, columns=each))
