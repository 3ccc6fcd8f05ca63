"""The rollout's core as a JetStream `Engine`.

    prefill   prompts to their keys and values, a `Prefix`
    insert    a prefix into a slot of the `DecodeState`, with the numbers its rows draw by
    generate  a block of tokens for every row of every slot

A slot is a group: one prompt and up to `samples_per_slot` samples of it. What a block starts from stays on the
device, so JetStream's Driver may ask for the next block before it has looked at this one. Needs the extra `jetstream`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from codea1_jax.models.qwen2 import Params, Qwen2
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.models.weights import load_params
from codea1_jax.rollout.cache import Cache
from codea1_jax.rollout.decode import DecodedBlock, Decoder, Rows, insert, new_cache, prompt_key_values
from codea1_jax.rollout.decode_params import to_decode_params
from codea1_jax.rollout.jetstream.results import BlockTokens
from codea1_jax.rollout.jetstream.shims import TokenizerParameters, engine_api
from codea1_jax.rollout.jetstream.tokenizer import EngineTokenizer
from codea1_jax.rollout.requests import Capacity, Sampling, bucket_of
from codea1_jax.rollout.sampling import Controls, SamplingKind


@dataclass(frozen=True, eq=False)
class SampleKeys:
    """How a slot's samples are drawn, and by which random keys, uint32 [samples, 2], one for each sample."""

    sampling: Sampling
    keys: np.ndarray


@dataclass(frozen=True, eq=False)
class Prompt:
    """Padded tokens, int32 [bucket], and how to resume from them: JetStream's prefill has no place for the second."""

    tokens: np.ndarray
    draws: SampleKeys


@partial(jax.tree_util.register_dataclass, data_fields=["key_values"], meta_fields=["lengths", "last", "draws"])
@dataclass(frozen=True, eq=False)
class Prefix:
    """Prefilled prompts: their keys and values, lengths in tokens and last tokens, int32 [prompts]."""

    key_values: Any
    lengths: np.ndarray
    last: np.ndarray
    draws: SampleKeys


@dataclass(frozen=True)
class SlotState:
    """What the host knows of a slot without asking the device: tokens of its prompt, and bounds of its samples'.

    drawn: at most that many tokens were drawn so far, of `limit`.
    """

    prompt: int
    drawn: int
    limit: int


@dataclass(frozen=True, eq=False)
class DecodeState:
    """What a block starts from. Once there are prompts, rows and controls lie on the device as the cache does.

    columns: those of prompts and responses that the block looks at.
    """

    cache: Cache
    rows: Rows
    controls: Controls
    kind: SamplingKind
    columns: tuple[int, int]
    slot_states: tuple[SlotState | None, ...]


class JetStreamEngine(engine_api.Engine):
    """The core under JetStream's verbs. Parameters are passed to them; the engine itself holds nothing that changes."""

    def __init__(self, model: Qwen2, tokenizer: Tokenizer, capacity: Capacity, mesh: Mesh | None = None) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._capacity = capacity
        self._mesh = one_device_mesh() if mesh is None else mesh
        self._to_decode_params = to_decode_params(model, self._mesh)

    def load_params(self, directory: Path) -> Params:
        """The parameters in a Hugging Face directory, as the engine decodes with them."""
        return self.decode_params(load_params(directory, self._model))

    def decode_params(self, params: Params) -> Params:
        """Parameters where and as the engine decodes with them; all its verbs want them so."""
        return self._to_decode_params(params)

    def init_decode_state(self) -> DecodeState:
        """Empty slots."""
        capacity = self._capacity
        shape = (capacity.slots, capacity.width)
        host: Any = (
            np.zeros(capacity.slots, np.int32),
            np.zeros(shape, np.int32),
            np.zeros(shape, np.int32),
            np.zeros(shape, bool),
            np.zeros((*shape, 2), np.uint32),
        )
        rows, controls = Rows(*host), _controls(Sampling(1), shape)
        cache = new_cache(self._model, capacity, self._mesh)
        empty = (None,) * capacity.slots
        return DecodeState(cache, rows, controls, SamplingKind.FILTERED, self._columns(empty), empty)

    def prefill(
        self,
        *,
        params: Params,
        existing_prefix: None = None,
        padded_tokens: Prompt | np.ndarray | jax.Array,
        true_length: int | np.ndarray,
    ) -> Prefix:
        """Runs one right-padded prompt [bucket] of `true_length` tokens, or several [prompts, bucket], once each.

        A bare array continues greedily with one sample. Raises ValueError for a prompt that was cut, and for an
        `existing_prefix`: no part of a prompt is shared with another one.
        """
        prompt = padded_tokens if isinstance(padded_tokens, Prompt) else self._greedy(np.asarray(padded_tokens))
        tokens, lengths = np.atleast_2d(prompt.tokens), np.atleast_1d(np.asarray(true_length, np.int32))
        if existing_prefix is not None:
            raise ValueError("this engine continues no existing prefix")
        if lengths.max() > tokens.shape[1]:
            raise ValueError(f"a prompt of {lengths.max()} tokens was cut to {tokens.shape[1]}")
        key_values = prompt_key_values(self._model, self._mesh, params, tokens)
        return Prefix(key_values, lengths, tokens[np.arange(len(tokens)), lengths - 1], prompt.draws)

    def insert(self, prefix: Prefix, decode_state: DecodeState, slot: int | np.ndarray) -> DecodeState:
        """Puts prompts into slots, one each; a slot that does not exist drops its prompt. Donates the state's cache."""
        slots = np.atleast_1d(np.asarray(slot, np.int32))
        cache, (rows, controls) = insert(
            self._mesh,
            decode_state.cache,
            (decode_state.rows, decode_state.controls),
            prefix.key_values,
            slots,
            self._slot_inputs(prefix),
        )
        lengths, limit = prefix.lengths.tolist(), prefix.draws.sampling.max_new_tokens
        inserted = {place: SlotState(length, 0, limit) for place, length in zip(slots.tolist(), lengths, strict=True)}
        slot_states = tuple(inserted.get(place, state) for place, state in enumerate(decode_state.slot_states))
        return replace(
            decode_state,
            cache=cache,
            rows=rows,
            controls=controls,
            slot_states=slot_states,
            columns=self._columns(slot_states),
        )

    def generate(self, params: Params, decode_state: DecodeState) -> tuple[DecodeState, BlockTokens]:
        """SampleKeys a block for every row. Donates the state's cache."""
        state, capacity = decode_state, self._capacity
        decoder = Decoder(self._model, self._mesh, capacity, self._tokenizer.eos_ids, state.kind, *state.columns)
        cache, block = decoder(params, state.cache, state.rows, state.controls)
        rows = _move_on(state.rows, block)
        slot_states = tuple(_older(state, capacity.block) for state in state.slot_states)
        after = replace(state, cache=cache, rows=rows, slot_states=slot_states, columns=self._columns(slot_states))
        return after, BlockTokens.of(block, rows)

    def get_prefix_destination_sharding(self) -> NamedSharding:
        """Where a prefix has to be for `insert`: on every device."""
        return NamedSharding(self._mesh, PartitionSpec())

    def get_tokenizer(self) -> Any:
        """Where the tokenizer was read from."""
        return TokenizerParameters(path=str(self._tokenizer.source or ""))

    def build_tokenizer(self, metadata: Any) -> EngineTokenizer:
        """The policy's own tokenizer, whatever the metadata names."""
        return EngineTokenizer(self._tokenizer, self._capacity.prompt_buckets)

    @property
    def max_concurrent_decodes(self) -> int:
        """Slots."""
        return self._capacity.slots

    @property
    def samples_per_slot(self) -> int:
        """Samples of one prompt that are decoded at once."""
        return self._capacity.width

    @property
    def max_prefill_length(self) -> int:
        """Tokens of the longest prompt. JetStream's Driver by itself wants a power of two from 16 on here."""
        return self._capacity.prompt_buckets[-1]

    @property
    def mesh(self) -> Mesh:
        """The devices."""
        return self._mesh

    @property
    def colocated_cpus(self) -> None:
        """None are known."""
        return None

    def _greedy(self, tokens: np.ndarray) -> Prompt:
        sampling = Sampling(self._capacity.response_buckets[-1], temperature=0.0)
        return Prompt(tokens, SampleKeys(sampling, np.zeros((1, 2), np.uint32)))

    def _slot_inputs(self, prefix: Prefix) -> tuple[Rows, Controls]:
        """What the rows of the prompts' slots start from."""
        shape = (len(prefix.lengths), self._capacity.width)
        samples = len(prefix.draws.keys)
        key = np.zeros((*shape, 2), np.uint32)
        key[:, :samples] = prefix.draws.keys
        host: Any = (
            prefix.lengths - 1,
            np.broadcast_to(prefix.last[:, None], shape),
            np.zeros(shape, np.int32),
            np.broadcast_to(np.arange(shape[1]) < samples, shape),
            key,
        )
        return Rows(*host), _controls(prefix.draws.sampling, shape)

    def _columns(self, slot_states: Sequence[SlotState | None]) -> tuple[int, int]:
        """The prompt and response columns that the slots may have to look at."""
        there = [state for state in slot_states if state is not None]
        prompt = max((state.prompt for state in there), default=1)
        drawn = max((state.drawn for state in there), default=0) + self._capacity.block
        response = bucket_of(drawn, self._capacity.response_buckets)
        return bucket_of(prompt, self._capacity.prompt_buckets), response - self._capacity.block


def _controls(sampling: Sampling, shape: tuple[int, int]) -> Controls:
    """The numbers of a sampling for every row, on the host."""
    numbers: Any = (np.full(shape, number) for number in Controls.of(sampling))
    return Controls(*numbers)


def _older(state: SlotState | None, block: int) -> SlotState | None:
    """A slot's state after a block; None once no sample of it can have more to come."""
    if state is None or state.drawn + block >= state.limit:
        return None
    return replace(state, drawn=state.drawn + block)


@jax.jit
def _move_on(rows: Rows, block: DecodedBlock) -> Rows:
    """Where the rows stand after a block."""
    last = jnp.maximum(block.count - 1, 0)
    token = jnp.take_along_axis(block.tokens, last[None], axis=0)[0]
    return rows._replace(
        token=jnp.where(block.count > 0, token, rows.token),
        num_generated=rows.num_generated + block.count,
        active=block.active,
    )
