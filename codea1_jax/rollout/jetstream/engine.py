"""The rollout's programs as a JetStream `Engine`.

    prefill   a prompt to its keys and values, a `Prefix`
    insert    a prefix into a slot of the `DecodeState`
    generate  a block of tokens for every row

A slot is one row, drawn greedily. What a block starts from stays on the device, so a caller may ask for the next block
before it has looked at this one: every slot has pages of its own for the longest prompt and response. Training, whose
schedule moves pages between samples, sets the state's prompts, rows and controls itself (`JetStreamSampler`).
"""

from pathlib import Path
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int
from jetstream.engine import engine_api, tokenizer_pb2

from codea1_jax.models.decoder import Params, Transformer
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.models.weights import load_params
from codea1_jax.rollout.attend import columns_before
from codea1_jax.rollout.cache import Cache
from codea1_jax.rollout.capacity import Capacity, bucket_of, pages_of
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
)
from codea1_jax.rollout.decode_params import abstract_decode_params
from codea1_jax.rollout.requests import Sampling
from codea1_jax.rollout.sampler import Sampler
from codea1_jax.rollout.sampling import Controls, SamplingKind


class Prefix(NamedTuple):
    """A prefilled prompt: its pages of keys and values, its length in tokens, and its last token."""

    pages: Cache
    length: int
    last: int


class DecodeState(NamedTuple):
    """What a block starts from, and the program that decodes it."""

    cache: Cache
    prompts: ResidentPrompts
    rows: Rows
    controls: Controls
    decoder: Decoder


@flax.struct.dataclass
class BlockTokens(engine_api.ResultTokens):
    """A block's tokens as JetStream wants them, one array for one copy to the host, and the block itself."""

    block: DecodedBlock


class JetStreamEngine(engine_api.Engine):
    """The rollout under JetStream's verbs. Parameters are passed to them; the engine holds nothing that changes.

    capacity: of one row for each slot, and with pages for its longest prompt and response, unless
        somebody else decides what the state's rows hold.
    """

    def __init__(self, model: Transformer, tokenizer: Tokenizer, capacity: Capacity, mesh: Mesh | None = None) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._capacity = capacity
        self._mesh = one_device_mesh() if mesh is None else mesh
        check_shards(capacity, self._mesh)

    def load_params(self, directory: Path) -> Params:
        return load_params(directory, self._model, abstract_decode_params(self._model, self._mesh))

    def init_decode_state(self) -> DecodeState:
        """Empty slots, with pages of their own: first those of all prompts, then those of responses."""
        capacity, model, mesh = self._capacity, self._model, self._mesh
        slots, longest = capacity.slots, capacity.response_buckets[-1]
        pages = np.arange(slots * capacity.most_pages, dtype=np.int32)
        of_prompts, of_responses = np.split(pages, [slots * capacity.prompt_pages])
        zeros = np.zeros(slots, np.int32)
        fields: Any = {
            "place": np.arange(slots, dtype=np.int32),
            **dict.fromkeys(("prompt", "token", "num_generated"), zeros),
            "active": np.zeros(slots, bool),
            "key": np.zeros((slots, 2), np.uint32),
            "pages": of_responses.reshape(slots, capacity.response_pages),
        }
        slot_pages: Any = zeros, of_prompts.reshape(slots, capacity.prompt_pages)
        host = ResidentPrompts(*slot_pages), Rows(**fields), Controls.of(Sampling(longest, temperature=0.0))
        needed = capacity.columns(capacity.prompt_buckets[-1], longest - capacity.block)
        decoder = make_decoder(model, mesh, capacity, self._tokenizer.eos_ids, SamplingKind.GREEDY, needed)
        prompts, rows, controls = jax.device_put(host, self._everywhere())
        return DecodeState(new_cache(model, capacity, mesh), prompts, rows, controls, decoder)

    def prefill(
        self, *, params: Params, existing_prefix: None = None, padded_tokens: np.ndarray | jax.Array, true_length: int
    ) -> Prefix:
        """Runs a right-padded prompt [bucket] of `true_length` tokens.

        Raises ValueError for a prompt that was cut, and for an `existing_prefix`: no part of a prompt is shared with
        another one.
        """
        tokens = np.asarray(padded_tokens, np.int32)
        if existing_prefix is not None:
            raise ValueError("this engine continues no existing prefix")
        if true_length > len(tokens):
            raise ValueError(f"a prompt of {true_length} tokens was cut to {len(tokens)}")
        block = self._capacity.block
        time = pages_of(bucket_of(true_length, self._capacity.prompt_buckets), block) * block
        padded = np.pad(tokens[:time], (0, time - len(tokens[:time])))
        inside = np.arange(time) < true_length - 1  # the last token is a row's first input
        packed: Any = padded, inside.astype(np.int32), np.arange(time, dtype=np.int32), np.arange(time // block)
        pages = prompt_pages(self._model, self._mesh, params, PackedPrompts(*(array[None] for array in packed)))
        return Prefix(pages, true_length, int(tokens[true_length - 1]))

    def insert(self, prefix: Prefix, decode_state: DecodeState, slot: int) -> DecodeState:
        """Puts a prompt into a slot. Donates the state's cache."""
        each, cached = self._capacity.prompt_pages, prefix.length - 1
        new = np.arange(len(prefix.pages[0].keys))
        numbers = np.where(new < pages_of(cached, self._capacity.block), slot * each + new, self._capacity.pages)
        values = {"prompt": cached, "token": prefix.last, "num_generated": 0, "active": True}
        rows, prompts = decode_state.rows, decode_state.prompts
        return decode_state._replace(
            cache=insert(self._mesh, decode_state.cache, prefix.pages, jnp.asarray(numbers)),
            prompts=prompts._replace(lengths=prompts.lengths.at[slot].set(cached)),
            rows=rows._replace(**{name: getattr(rows, name).at[slot].set(value) for name, value in values.items()}),
        )

    def generate(self, params: Params, decode_state: DecodeState) -> tuple[DecodeState, BlockTokens]:
        """Samples a block for every row. Donates the state's cache."""
        cache, prompts, rows, controls, decoder = decode_state
        cache, block = decoder(params, cache, prompts, rows, controls)
        rows, data = _after(rows, block)
        steps = len(block.tokens)
        columns = (0, steps), (steps, 2 * steps), (2 * steps, 2 * steps + 1)
        return decode_state._replace(cache=cache, rows=rows), BlockTokens(data, *columns, self.samples_per_slot, block)

    def get_prefix_destination_sharding(self) -> NamedSharding:
        return self._everywhere()

    def get_tokenizer(self) -> Any:
        return vars(tokenizer_pb2)["TokenizerParameters"](path=str(self._tokenizer.source or ""))

    @property
    def max_concurrent_decodes(self) -> int:
        return self._capacity.slots

    @property
    def samples_per_slot(self) -> int:
        return 1

    @property
    def max_prefill_length(self) -> int:
        return self._capacity.prompt_buckets[-1]

    @property
    def mesh(self) -> Mesh:
        return self._mesh

    @property
    def colocated_cpus(self) -> None:
        return None

    def _everywhere(self) -> NamedSharding:
        return NamedSharding(self._mesh, PartitionSpec())


class JetStreamSampler(Sampler):
    """Samples what `Sampler` draws, by the engine's generate, as training on TPUs and GPUs drives it.

    Not JetStream's Driver but the core's schedule decides who draws what, and when: the Driver's decisions depend on
    time, so two hosts of a pod would make different ones. settings: what else a `Sampler` is made of.
    """

    def __init__(
        self, model: Transformer, tokenizer: Tokenizer, *, capacity: Capacity, mesh: Mesh | None = None, **settings: Any
    ) -> None:
        settings |= {"eos_ids": tokenizer.eos_ids, "pad_id": tokenizer.pad_id}
        super().__init__(model, capacity=capacity, mesh=mesh, **settings)
        self._engine = JetStreamEngine(model, tokenizer, capacity, mesh)

    def _decode(self, decoder: Decoder, params: Params, *start: Any) -> tuple[Cache, DecodedBlock]:
        cache, prompts, rows, controls = start
        state, result = self._engine.generate(params, DecodeState(cache, prompts, rows, controls, decoder))
        return state.cache, result.block


@jax.jit
def _after(rows: Rows, block: DecodedBlock) -> tuple[Rows, Int[Array, "rows columns"]]:
    """Where the rows stand after a block, and its result as one array: tokens, which are valid, lengths so far."""
    last = jnp.take_along_axis(block.tokens, jnp.maximum(block.count - 1, 0)[None], axis=0)[0]
    after = rows._replace(
        token=jnp.where(block.count > 0, last, rows.token),
        num_generated=rows.num_generated + block.count,
        active=block.active,
    )
    valid = columns_before(block.count, len(block.tokens)).astype(jnp.int32)
    return after, jnp.concatenate([block.tokens.T, valid, after.num_generated[:, None]], axis=1)
