"""The sampler over the verbs of the JetStream engine, as training on TPUs and GPUs drives it.

Not JetStream's Driver but the core's schedule decides who draws what, and when: the Driver's decisions depend on time,
so two hosts of a pod would make different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
from jax.sharding import Mesh

from codea1_jax.models.qwen2 import Params, Qwen2
from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.rollout.decode import new_cache
from codea1_jax.rollout.jetstream.engine import DecodeState, JetStreamEngine
from codea1_jax.rollout.requests import Capacity, Completion, Request, Sampling
from codea1_jax.rollout.sampler import Sampler
from codea1_jax.rollout.sampling import Controls, SamplingKind


class JetStreamSampler(Sampler):
    """Samples what `Sampler` draws, by the engine's prefill, insert and generate."""

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
        schedule = self._schedule(requests, sampling)
        controls, kind = Controls.of(sampling), SamplingKind.of(sampling)
        params = self._engine.decode_params(params)
        cache = new_cache(self._model, self._capacity, self._mesh)
        state = DecodeState(cache, schedule.prompts(), schedule.rows(), controls, kind, (1, 0), slot_states=())
        finished = []
        while True:
            for pack in schedule.admit():
                self._count(pack)
                pages = self._engine.prefill_pack(params, pack)
                state = self._engine.insert_pages(pages, state, pack.pages.reshape(-1))
            if not schedule.busy:
                break
            # What rows hold is the schedule's to say: the engine's own state knows only of samples that go on.
            state = replace(
                state,
                prompts=schedule.prompts(),
                rows=schedule.rows(),
                controls=controls._replace(max_new_tokens=schedule.limits()),
                columns=schedule.columns(),
            )
            self._programs.add((kind, state.columns))
            state, result = self._engine.generate(params, state)
            yield from finished  # while the device works
            finished = schedule.record(self._fetch(result.as_block()))
        yield from finished
        self.counters.set_back += schedule.set_back
