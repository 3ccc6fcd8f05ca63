"""The sampler over the verbs of the JetStream engine, as training on TPUs and GPUs drives it.

Not JetStream's Driver but the core's schedule decides who draws what, and when: the Driver's decisions depend on time,
so two hosts of a pod would make different ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh

from codea1_jax.models.ahead import shapes_of
from codea1_jax.models.qwen2 import Params, Qwen2
from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.rollout.cache import Cache
from codea1_jax.rollout.capacity import Capacity
from codea1_jax.rollout.decode import DecodedBlock, Decoder, PackedPrompts, ResidentPrompts, Rows, prompt_pages
from codea1_jax.rollout.jetstream.engine import DecodeState, JetStreamEngine
from codea1_jax.rollout.jetstream.results import BlockTokens
from codea1_jax.rollout.sampler import Sampler
from codea1_jax.rollout.sampling import Controls


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
        int8_weights: bool = False,
        wait: Callable[[Any], object] = jax.block_until_ready,
        samples: str = "samples",
    ) -> None:
        super().__init__(
            model,
            eos_ids=tokenizer.eos_ids,
            pad_id=tokenizer.pad_id,
            seed=seed,
            capacity=capacity,
            mesh=mesh,
            int8_weights=int8_weights,
            wait=wait,
            samples=samples,
        )
        self._engine = JetStreamEngine(model, tokenizer, capacity, self._mesh)

    def _compile_prefill(self, params: Params, cache: Cache, packed: PackedPrompts) -> None:
        self._ahead.start(packed.tokens.shape, prompt_pages, self._model, self._mesh, params, shapes_of(packed))

    def _prefill(self, params: Params, cache: Cache, packed: PackedPrompts) -> Cache:
        pages = self._engine.prefill_packed(params, packed)
        return self._engine.insert_pages(pages, cache, packed.pages.reshape(-1))

    def _decode(
        self,
        decoder: Decoder,
        params: Params,
        cache: Cache,
        prompts: ResidentPrompts,
        rows: Rows,
        controls: Controls,
    ) -> tuple[Cache, BlockTokens]:
        # What rows hold is the schedule's to say: the engine's own slots stay empty.
        state = DecodeState(cache, prompts, rows, controls, decoder.kind, decoder.columns, slot_states=())
        state, result = self._engine.generate(params, state)
        return state.cache, result

    def _fetch(self, running: BlockTokens) -> DecodedBlock:
        self._wait(running.data)
        return running.as_block()
