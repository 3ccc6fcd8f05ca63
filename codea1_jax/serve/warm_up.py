"""Every program that requests can need, compiled before the first of them comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np

from codea1_jax.common.console import ShowProgress
from codea1_jax.models.ahead import MOST_AT_ONCE, CompileAhead
from codea1_jax.models.qwen2 import Params
from codea1_jax.rollout.capacity import Capacity
from codea1_jax.rollout.jetstream.engine import JetStreamEngine, Prompt, SampleKeys
from codea1_jax.rollout.requests import Sampling

_ONE_TOKEN = SampleKeys(Sampling(1), np.zeros((1, 2), np.uint32))


def warm_up(
    engine: JetStreamEngine, params: Params, capacity: Capacity, show: ShowProgress, stopped: Callable[[], bool]
) -> None:
    """Prefills a prompt of every bucket and decodes a token with every number of columns, unless `stopped`.

    What comes next is being compiled meanwhile. The cache that this takes is freed before the Driver makes its own.
    """
    responses = [capacity.columns(1, bucket - capacity.block)[1] for bucket in capacity.response_buckets]
    programs = [*capacity.prompt_buckets, *product(capacity.prompt_page_buckets, responses)]
    state, ahead = engine.init_decode_state(), CompileAhead()
    for done, program in enumerate(programs):
        show(done, len(programs), "prefill" if isinstance(program, int) else "decode")
        if stopped():
            return
        for each in programs[done : done + MOST_AT_ONCE]:
            if isinstance(each, int):
                engine.compile_prefill(ahead, params, each)
            else:
                engine.compile_block(ahead, params, replace(state, columns=each))
        ahead.wait(program)
        if isinstance(program, int):
            prompt = Prompt(np.zeros(program, np.int32), _ONE_TOKEN)
            prefix = engine.prefill(params=params, padded_tokens=prompt, true_length=program)
            state = engine.insert(prefix, state, slot=0)
        else:
            state, _ = engine.generate(params, replace(state, columns=program))
    show(len(programs), len(programs))
