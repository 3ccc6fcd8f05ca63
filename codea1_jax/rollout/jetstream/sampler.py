"""The sampler over the JetStream engine, as training on TPUs and GPUs drives it.

Not JetStream's Driver but the core's schedule decides who draws what, and when: the Driver's decisions depend on time,
so two hosts of a pod would make different ones.
"""

from __future__ import annotations

from typing import Any

from jax.sharding import Mesh

from codea1_jax.models.decoder import Params, Transformer
from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.rollout.cache import Cache
from codea1_jax.rollout.capacity import Capacity
from codea1_jax.rollout.decode import DecodedBlock, Decoder, ResidentPrompts, Rows
from codea1_jax.rollout.jetstream.engine import DecodeState, JetStreamEngine
from codea1_jax.rollout.sampler import Sampler
from codea1_jax.rollout.sampling import Controls


class JetStreamSampler(Sampler):
    """Samples what `Sampler` draws, by the engine's generate.

    settings: what else a `Sampler` is made of.
    """

    def __init__(
        self, model: Transformer, tokenizer: Tokenizer, *, capacity: Capacity, mesh: Mesh | None = None, **settings: Any
    ) -> None:
        settings |= {"eos_ids": tokenizer.eos_ids, "pad_id": tokenizer.pad_id}
        super().__init__(model, capacity=capacity, mesh=mesh, **settings)
        self._engine = JetStreamEngine(model, tokenizer, capacity, mesh)

    def _decode(
        self,
        decoder: Decoder,
        params: Params,
        cache: Cache,
        prompts: ResidentPrompts,
        rows: Rows,
        controls: Controls,
    ) -> tuple[Cache, DecodedBlock]:
        state, result = self._engine.generate(params, DecodeState(cache, prompts, rows, controls, decoder))
        return state.cache, result.block
