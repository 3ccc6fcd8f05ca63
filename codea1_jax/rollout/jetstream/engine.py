"""The rollout's core as a JetStream `Engine`.

    prefill   prompts to their keys and values, a `Prefix`
    insert    a prefix into a slot of the `DecodeState`, with the numbers its rows draw by
    generate  a block of tokens for every row of every slot

A slot is one prompt and up to `samples_per_slot` samples of it, each in a row of the slot's own. What a block starts
from stays on the device, so JetStream's Driver may ask for the next block before it has looked at this one: so every
slot has pages of its own for the longest prompt and responses. Training, whose schedule moves pages between samples,
sets the state's rows and prompts itself (`sampler`). Needs the extra `jetstream`.
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

from codea1_jax.models.ahead import CompileAhead, shapes_of
from codea1_jax.models.qwen2 import Params, Qwen2
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.models.weights import load_params
from codea1_jax.rollout.cache import Cache
from codea1_jax.rollout.capacity import Capacity, pages_of
from codea1_jax.rollout.decode import (
    DecodedBlock,
    Decoder,
    PackedPrompts,
    ResidentPrompts,
    Rows,
    check_shards,
    insert,
    make_decoder,
    new_cache,
    prompt_pages,
    replace_rows,
)
from codea1_jax.rollout.decode_params import to_decode_params
from codea1_jax.rollout.jetstream.results import BlockTokens
from codea1_jax.rollout.jetstream.shims import TokenizerParameters, engine_api
from codea1_jax.rollout.jetstream.tokenizer import EngineTokenizer
from codea1_jax.rollout.requests import Sampling
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


@partial(jax.tree_util.register_dataclass, data_fields=["pages"], meta_fields=["length", "last", "draws"])
@dataclass(frozen=True, eq=False)
class Prefix:
    """A prefilled prompt: pages of keys and values, its length in tokens and last token, and how to resume from it."""

    pages: Cache
    length: int
    last: int
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
    """What a block starts from. Once one was decoded, prompts, rows and controls lie on the device as the cache does.

    columns: pages of prompts and responses that the block looks at.
    """

    cache: Cache
    prompts: ResidentPrompts
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
        check_shards(capacity, self._mesh)
        self._to_decode_params = to_decode_params(model, self._mesh, fp8=capacity.fp8)

    def load_params(self, directory: Path) -> Params:
        """The parameters in a Hugging Face directory, as the engine decodes with them."""
        return self.decode_params(load_params(directory, self._model))

    def decode_params(self, params: Params) -> Params:
        """Parameters where and as the engine decodes with them; all its verbs want them so."""
        return self._to_decode_params(params)

    def init_decode_state(self) -> DecodeState:
        """Empty slots, with pages of their own."""
        capacity = self._capacity
        prompts: Any = (np.zeros(capacity.slots, np.int32), self._prompt_pages())
        host = self._idle_rows(), _controls(Sampling(1), capacity.rows), ResidentPrompts(*prompts)
        # Where a block leaves them: else the programs would be compiled once for the host's arrays and once for these.
        rows, controls, residents = jax.device_put(host, NamedSharding(self._mesh, PartitionSpec()))
        cache = new_cache(self._model, capacity, self._mesh)
        empty = (None,) * capacity.slots
        columns = self._columns(empty)
        return DecodeState(cache, residents, rows, controls, SamplingKind.FILTERED, columns, empty)

    def prefill(
        self,
        *,
        params: Params,
        existing_prefix: None = None,
        padded_tokens: Prompt | np.ndarray | jax.Array,
        true_length: int,
    ) -> Prefix:
        """Runs a right-padded prompt [bucket] of `true_length` tokens.

        A bare array continues greedily with one sample. Raises ValueError for a prompt that was cut, and for an
        `existing_prefix`: no part of a prompt is shared with another one.
        """
        prompt = padded_tokens if isinstance(padded_tokens, Prompt) else self._greedy(np.asarray(padded_tokens))
        if existing_prefix is not None:
            raise ValueError("this engine continues no existing prefix")
        if true_length > len(prompt.tokens):
            raise ValueError(f"a prompt of {true_length} tokens was cut to {len(prompt.tokens)}")
        pages = self.prefill_packed(params, self._pack_of(prompt.tokens, true_length))
        return Prefix(pages, true_length, int(prompt.tokens[true_length - 1]), prompt.draws)

    def prefill_packed(self, params: Params, packed: PackedPrompts) -> Cache:
        """The pages of several prompts."""
        return prompt_pages(self._model, self._mesh, params, packed)

    def insert(self, prefix: Prefix, decode_state: DecodeState, slot: int) -> DecodeState:
        """Puts a prompt into a slot. Donates the state's cache."""
        capacity, state = self._capacity, decode_state
        numbers = np.full(len(prefix.pages[0].keys), capacity.pages, np.int32)
        filled = pages_of(prefix.length - 1, capacity.block)
        numbers[:filled] = self._prompt_pages()[slot, :filled]
        there = np.arange(slot * capacity.width, (slot + 1) * capacity.width)
        fresh = self._fresh_rows(prefix, there), _controls(prefix.draws.sampling, capacity.width)
        rows, controls = replace_rows((state.rows, state.controls), there, fresh)
        slots = np.array([slot])
        lengths = replace_rows(state.prompts.lengths, slots, np.array([prefix.length - 1], np.int32))
        states = list(state.slot_states)
        states[slot] = SlotState(prefix.length, 0, prefix.draws.sampling.max_new_tokens)
        return replace(
            state,
            cache=self.insert_pages(prefix.pages, state.cache, numbers),
            prompts=state.prompts._replace(lengths=lengths),
            rows=rows,
            controls=controls,
            slot_states=tuple(states),
            columns=self._columns(states),
        )

    def insert_pages(self, pages: Cache, cache: Cache, numbers: Any) -> Cache:
        """Puts prefilled pages under these numbers of a cache, int32 [new]. Donates the cache."""
        return insert(self._mesh, cache, pages, numbers)

    def generate(self, params: Params, decode_state: DecodeState) -> tuple[DecodeState, BlockTokens]:
        """Samples a block for every row. Donates the state's cache."""
        state, capacity = decode_state, self._capacity
        arguments = params, state.cache, state.prompts, state.rows, state.controls
        cache, block = self._decoder(state)(*arguments)
        rows = _move_on(state.rows, block)
        slot_states = tuple(_older(state, capacity.block) for state in state.slot_states)
        after = replace(state, cache=cache, rows=rows, slot_states=slot_states, columns=self._columns(slot_states))
        return after, BlockTokens.of(block, rows, capacity.width)

    def compile_prefill(self, ahead: CompileAhead, params: Params, bucket: int) -> None:
        """Begins to compile the prefill of a bucket, by which it can be waited for."""
        packed = shapes_of((params, self._pack_of(np.zeros(bucket, np.int32), bucket)))
        ahead.start(bucket, prompt_pages, self._model, self._mesh, *packed)

    def compile_block(self, ahead: CompileAhead, params: Params, state: DecodeState) -> None:
        """Begins to compile a block of the state's columns, by which it can be waited for."""
        arguments = shapes_of((params, state.cache, state.prompts, state.rows, state.controls))
        ahead.start(state.columns, Decoder.__call__, self._decoder(state), *arguments)

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

    def _decoder(self, state: DecodeState) -> Decoder:
        """The program for the state's next block."""
        eos_ids = self._tokenizer.eos_ids
        return make_decoder(self._model, self._mesh, self._capacity, eos_ids, state.kind, state.columns)

    def _prompt_pages(self) -> np.ndarray:
        """Every slot's own pages for a prompt, [slots, pages]."""
        slots, each = self._capacity.slots, self._capacity.prompt_pages
        return np.arange(slots * each, dtype=np.int32).reshape(slots, each)

    def _idle_rows(self) -> Rows:
        """Rows without samples, each with pages of its own, which follow those of prompts."""
        rows, each = self._capacity.rows, self._capacity.response_pages
        first = self._capacity.slots * self._capacity.prompt_pages
        host: Any = (
            np.arange(rows, dtype=np.int32),
            np.zeros(rows, np.int32),
            np.zeros(rows, np.int32),
            np.zeros(rows, np.int32),
            np.zeros(rows, bool),
            np.zeros((rows, 2), np.uint32),
            first + np.arange(rows * each, dtype=np.int32).reshape(rows, each),
        )
        return Rows(*host)

    def _fresh_rows(self, prefix: Prefix, there: np.ndarray) -> Rows:
        """What these rows, of one slot, start from."""
        samples, idle = len(prefix.draws.keys), jax.tree.map(lambda x: x[there], self._idle_rows())
        idle.prompt[:], idle.token[:] = prefix.length - 1, prefix.last
        idle.active[:samples] = True
        idle.key[:samples] = prefix.draws.keys
        return idle

    def _pack_of(self, tokens: np.ndarray, length: int) -> PackedPrompts:
        """One prompt, without its last token."""
        block = self._capacity.block
        time = pages_of(len(tokens), block) * block
        padded = np.pad(tokens, (0, time - len(tokens)))
        inside = np.arange(time) < length - 1
        host: Any = (padded, inside.astype(np.int32), np.arange(time, dtype=np.int32), np.arange(time // block))
        return PackedPrompts(*(array[None] for array in host))

    def _columns(self, slot_states: Sequence[SlotState | None]) -> tuple[int, int]:
        """The pages of prompts and responses that the slots may have to look at."""
        there = [state for state in slot_states if state is not None]
        prompt = max((state.prompt - 1 for state in there), default=0)
        return self._capacity.columns(prompt, max((state.drawn for state in there), default=0))


def _controls(sampling: Sampling, rows: int) -> Controls:
    """The numbers of a sampling for every row, on the host."""
    numbers: Any = (np.full(rows, number) for number in Controls.of(sampling))
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
