"""The sampler over the verbs of the JetStream engine, as training on TPUs and GPUs drives it.

Not JetStream's Driver but the core's schedule decides who draws what, and when: the Driver's decisions depend on time,
so two hosts of a pod would make different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from codea1_jax.models.qwen2 import Params, Qwen2
from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.rollout.jetstream.engine import DecodeState, JetStreamEngine, Prompt, SampleKeys
from codea1_jax.rollout.requests import Capacity, Completion, Request, Sampling
from codea1_jax.rollout.sampler import Sampler
from codea1_jax.rollout.sampling import SamplingKind
from codea1_jax.rollout.schedule import Admission, Schedule


class JetStreamSampler(Sampler):
    """SampleKeys what `Sampler` draws, by the engine's prefill, insert and generate."""

    def __init__(
        self,
        model: Qwen2,
        tokenizer: Tokenizer,
        *,
        seed: int,
        capacity: Capacity,
        mesh: Mesh | None = None,
        wait: Callable[[Any], object] = jax.block_until_ready,
    ) -> None:
        eos_ids, pad_id = tokenizer.eos_ids, tokenizer.pad_id
        super().__init__(model, eos_ids=eos_ids, pad_id=pad_id, seed=seed, capacity=capacity, mesh=mesh, wait=wait)
        self._engine = JetStreamEngine(model, tokenizer, capacity, self._mesh)

    def _run(
        self, params: Params, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[int, tuple[Completion, ...]]]:
        schedule = Schedule(requests, self._capacity, eos_ids=self._eos_ids, pad_id=self._pad_id, seed=self._seed)
        params = self._engine.decode_params(params)
        state = replace(self._engine.init_decode_state(), kind=SamplingKind.of(sampling))
        finished = []
        while True:
            for admission in schedule.admit():
                state = self._enter(params, state, admission, sampling)
            if not schedule.busy:
                break
            # A row whose sample ended may take its group's next one, of which the engine's own state knows nothing.
            limits = np.minimum(schedule.limits(), sampling.max_new_tokens)
            controls = state.controls._replace(max_new_tokens=limits)
            state = replace(state, rows=schedule.rows(), controls=controls, columns=schedule.columns())
            self._programs.add((state.kind, state.columns))
            state, result = self._engine.generate(params, state)
            yield from finished  # while the device works
            finished = schedule.record(self._fetch(result.as_block()))
        yield from finished

    def _enter(self, params: Params, state: DecodeState, admission: Admission, sampling: Sampling) -> DecodeState:
        self._programs.add(admission.tokens.shape)
        self.counters.prefilled += admission.prefilled
        prompts = Prompt(
            admission.tokens, SampleKeys(sampling, np.zeros((0, 2), np.uint32))
        )  # the schedule has the keys
        lengths = np.full(len(admission.tokens), admission.tokens.shape[1], np.int32)
        prefix = self._engine.prefill(params=params, padded_tokens=prompts, true_length=lengths)
        return self._engine.insert(prefix, state, admission.slots)
