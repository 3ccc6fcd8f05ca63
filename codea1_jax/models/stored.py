"""The Flax form of parameters on disk: a checkpoint, written and read by every host for its own devices.

Beside config.json and the tokenizer's files it makes a model directory, as safetensors do; but it keeps the stacked
layers, and every array's fingerprint. A run's checkpoints hold the parameters of its policies in the same form.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import jax
from flax import traverse_util

from codea1_jax.models.decoder import Params, Transformer, abstract_params
from codea1_jax.models.sharding import with_shardings
from codea1_jax.runtime.checkpoints import Checkpoints

PARAMS = "params"  # the folder in a model directory
STEP = 0


def flatten(tree: Params) -> dict[tuple[str, ...], Any]:
    """A nested dict's leaves by their paths."""
    return cast("dict[tuple[str, ...], Any]", traverse_util.flatten_dict(tree))


def save_stored(directory: Path, params: Params) -> None:
    """Writes the parameters into a model directory. Raises CheckpointError if they cannot be written."""
    with Checkpoints(directory / PARAMS) as checkpoints:
        checkpoints.save(STEP, params, {})


def read_stored(directory: Path, model: Transformer, shardings: Params) -> Params:
    """The parameters in a model directory, placed and in the model's parameter dtype. Raises CheckpointError."""
    with Checkpoints(directory / PARAMS, read_only=True) as checkpoints:
        return read_part(checkpoints, STEP, (), with_shardings(abstract_params(model), shardings))


def dtype_of_stored(directory: Path) -> str:
    """The type of the parameters in a model directory. Raises CheckpointError."""
    with Checkpoints(directory / PARAMS, read_only=True) as checkpoints:
        arrays, _ = checkpoints.look(STEP)
    return next(iter(arrays.values()))[0]


def read_part(checkpoints: Checkpoints, step: int, place: tuple[str, ...], like: Params) -> Params:
    """The arrays at `place` of a checkpoint's, and nothing else of it; `like` are the placed shapes and types wanted.

    Raises CheckpointError.
    """
    saved, _ = checkpoints.look(step)
    shapes = flatten(like)
    as_saved = {}
    for path, wanted in shapes.items():
        dtype = saved.get("/".join((*place, *path)), [wanted.dtype])[0]
        as_saved[*place, *path] = jax.ShapeDtypeStruct(wanted.shape, dtype, sharding=wanted.sharding)
    part = flatten(checkpoints.restore_part(step, traverse_util.unflatten_dict(as_saved)))
    # One by one, so that at no time all parameters are there in both types.
    params = {path: part.pop((*place, *path)).astype(wanted.dtype) for path, wanted in shapes.items()}
    return traverse_util.unflatten_dict(params)
