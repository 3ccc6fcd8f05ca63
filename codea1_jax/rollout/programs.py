"""The programs of a sampler from shapes alone: a run compiles them at its start, a plan for absent hardware."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from codea1_jax.models.ahead import Program, shapes_of
from codea1_jax.models.decoder import Params, Transformer
from codea1_jax.rollout.capacity import Capacity
from codea1_jax.rollout.decode import (
    Decoder,
    PackedPrompts,
    ResidentPrompts,
    Rows,
    abstract_cache,
    make_decoder,
    prefill,
)
from codea1_jax.rollout.decode_params import abstract_decode_params, mover, parts_to_move
from codea1_jax.rollout.sampling import Controls, SamplingKind


def sampling_programs(
    model: Transformer,
    mesh: Mesh,
    capacity: Capacity,
    eos_ids: tuple[int, ...],
    kind: SamplingKind,
    params: Params,
    *,
    by_row: bool = False,
) -> Iterator[Program]:
    """Everything that samples of this kind can need: weights, prefills and decoding, the largest shapes last.

    params: what is sampled, adapted ones too, or its placed shapes. by_row: whether every row has controls of its own.
    """
    cache, moved = abstract_cache(model, capacity, mesh), parts_to_move(model, mesh, params)
    decoded = abstract_decode_params(model, mesh)
    held = {name: decoded[name] if name in moved else shapes_of(part) for name, part in params.items()}
    if moved:
        yield Program("weights", (), mover(model, mesh, tuple(moved)), (), (shapes_of(moved),))  # pyright: ignore[reportArgumentType]
    shards = capacity.batch_shards
    for tokens in capacity.prefill_buckets:
        each, pages = _numbers(shards, tokens), _numbers(shards, tokens // capacity.block)
        packed = PackedPrompts(each, each, each, pages)
        yield Program("prefill", (tokens,), prefill, (model, mesh), (held, cache, packed))  # pyright: ignore[reportArgumentType]
    decoders = (
        make_decoder(model, mesh, capacity, eos_ids, kind, capacity.columns(prompt, response - capacity.block))
        for prompt in capacity.prompt_buckets
        for response in capacity.response_buckets
    )
    for decoder in dict.fromkeys(decoders):
        for rows in capacity.row_buckets:
            shape = rows // shards, *decoder.columns
            state = _decoding_state(capacity, rows, by_row=by_row)
            yield Program("decode", shape, Decoder.__call__, (decoder,), (held, cache, *state))


def _numbers(*shape: int, dtype: Any = np.int32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


def _decoding_state(capacity: Capacity, rows: int, *, by_row: bool) -> tuple[ResidentPrompts, Rows, Controls]:
    slots, each = capacity.slots, _numbers(rows)
    controls = (rows,) if by_row else ()
    number = _numbers(*controls, dtype=np.float32)
    return (
        ResidentPrompts(_numbers(slots), _numbers(slots, capacity.prompt_pages)),
        Rows(
            place=each,
            prompt=each,
            token=each,
            num_generated=each,
            active=_numbers(rows, dtype=np.bool_),
            key=_numbers(rows, 2, dtype=np.uint32),
            pages=_numbers(rows, capacity.response_pages),
        ),
        Controls(number, number, _numbers(*controls), each),
    )
