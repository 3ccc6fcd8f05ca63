"""Weights to and from Hugging Face safetensors, bit for bit, without torch.

Reading safetensors goes straight into (sharded) device arrays: each device's piece of a parameter is cut out of the
files, so the host never holds more than the piece it is placing. Writing holds one file.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from huggingface_hub import scan_cache_dir, snapshot_download, split_state_dict_into_shards_factory
from huggingface_hub.errors import CacheNotFound, HfHubHTTPError, LocalEntryNotFoundError
from jax.experimental import multihost_utils
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from codea1_jax.common.activity import report
from codea1_jax.common.errors import UserError
from codea1_jax.common.files import blamed_on_file, checked, read_json
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import KERNEL, TRANSPOSED_KERNEL, Params, Transformer, abstract_params, flatten
from codea1_jax.models.families import read_architecture, write_architecture
from codea1_jax.models.sharding import abstract_sharded, one_device_mesh

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
FILE_BYTES = 5 * 10**9
DTYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
SMALL_FILES = ("*.json", "*.txt", "*.jinja")
HUB_FILES = ("*.safetensors", *SMALL_FILES)


class WeightsError(UserError):
    """A checkpoint's tensors are not those of the model; the message names them."""


def resolve(name: str, files: Sequence[str] = HUB_FILES) -> Path:
    """A local model directory as it is; a Hub id (like `Qwen/Qwen2.5-Coder-1.5B`) downloaded, or cached.

    files: patterns of those that are downloaded.

    Raises UserError if it is neither, or cannot be downloaded.
    """
    local = Path(name).expanduser()
    if local.is_dir():
        return local
    if local.is_absolute() or name.count("/") != 1 or name.startswith("."):
        raise UserError(f"{name}: no such directory, and not a Hub id (owner/name)")
    try:
        return Path(snapshot_download(name, allow_patterns=[*files]))
    except (HfHubHTTPError, LocalEntryNotFoundError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"{name}: no such directory, nor available from the Hub: {reason}; where there is a network, "
            f"`hf download {name} --local-dir DIRECTORY`, then name that directory{_cached_models()}"
        ) from error


def _cached_models() -> str:
    try:
        cached = sorted(repo.repo_id for repo in scan_cache_dir().repos if repo.repo_type == "model")
    except CacheNotFound:
        cached = []
    return f"; downloaded already: {', '.join(cached)}" if cached else ""


def read_config(directory: Path) -> Architecture:
    """The architecture that a model directory's `config.json` states. Raises UserError if it is not supported."""
    path = directory / "config.json"
    if not path.exists():
        raise UserError(f"{directory}: no config.json, so it is not a model directory")
    with blamed_on_file(path):
        return read_architecture(read_json(path))


def write_config(
    directory: Path, architecture: Architecture, dtype: str, special_ids: Mapping[str, Any] | None = None
) -> None:
    """Writes the `config.json` of a model whose parameters are of `dtype`; `special_ids` are its tokenizer's."""
    document = write_architecture(architecture, dtype) | dict(special_ids or {})
    (directory / "config.json").write_text(json.dumps(document, indent=2) + "\n")


@dataclass(frozen=True)
class Placement:
    """Where one parameter lies: its path in the tree, and its Hugging Face tensors, one per layer of a stack."""

    path: tuple[str | int, ...]
    names: tuple[str, ...]
    stacked: bool  # a leading layer axis, one tensor per layer
    transposed: bool  # Hugging Face's linear weights are (out, in)

    def tensor_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        one = shape[1:] if self.stacked else shape
        return one[::-1] if self.transposed else one


def placement(path: tuple[str | int, ...], num_layers: int) -> Placement:
    """path: begins with "layers" in a stack of them, with ("layers", number) where they are apart."""
    if len(path) == 1:  # the two vocabulary tables
        name = f"{path[0]}.weight" if path[0] == "lm_head" else f"model.{path[0]}.weight"
        return Placement(path, (name,), stacked=False, transposed=False)
    prefixes, inside = ["model."], path
    if path[0] == "layers":
        apart = isinstance(path[1], int)
        numbers, inside = (path[1:2], path[2:]) if apart else (range(num_layers), path[1:])
        prefixes = [f"model.layers.{number}." for number in numbers]
    *modules, leaf = map(str, inside)
    name = ".".join([*modules, "weight" if leaf in (KERNEL, TRANSPOSED_KERNEL) else leaf])
    stacked = path[0] == "layers" and inside == path[1:]
    return Placement(path, tuple(prefix + name for prefix in prefixes), stacked, transposed=leaf == KERNEL)


def placements(model: Transformer, like: Params | None = None) -> dict[Placement, jax.ShapeDtypeStruct]:
    """Those of the model's parameters, or of a tree like them whose layers are apart, in the order of leaves."""
    leaves = jax.tree.leaves_with_path(abstract_params(model) if like is None else like)
    names = [tuple(getattr(key, "key", getattr(key, "idx", 0)) for key in path) for path, _ in leaves]
    layers = model.architecture.num_layers
    return {placement(name, layers): leaf for name, (_, leaf) in zip(names, leaves, strict=True)}


@dataclass(frozen=True)
class _StoredTensor:
    """One tensor of a file. It is open only while it is read, or the pages of all would stay in memory."""

    file: Path
    name: str
    dtype: str
    shape: tuple[int, ...]

    def read(self, part: tuple[slice, ...]) -> np.ndarray:
        with safe_open(self.file, framework="numpy") as file:
            return file.get_slice(self.name)[part]


def _stored_tensors(directory: Path) -> dict[str, _StoredTensor]:
    tensors: dict[str, _StoredTensor] = {}
    for path in _weight_files(directory):
        try:
            with safe_open(checked(path), framework="numpy") as file:
                for name in file.keys():  # noqa: SIM118  not a dict
                    piece = file.get_slice(name)
                    tensors[name] = _StoredTensor(path, name, piece.get_dtype(), tuple(piece.get_shape()))
        except SafetensorError as error:
            raise WeightsError(f"{path}: not whole, or not safetensors ({error}); download it again") from error
    return tensors


def load_params(directory: Path, model: Transformer, like: Params | None = None) -> Params:
    """Reads the safetensors of a model directory into device arrays.

    like: their placed shapes, whose layers may be apart; without it they are the model's own, on the first device.
    Raises WeightsError naming every missing, unexpected or misshapen tensor before any is read.
    """
    like = abstract_sharded(model, one_device_mesh()) if like is None else like
    places = placements(model, like)
    stored = _stored_tensors(directory)
    _check_tensors(directory, stored, places, model.architecture)
    params, sizes = [], [leaf.size * leaf.dtype.itemsize for leaf in places.values()]
    for place, leaf in places.items():
        report("reading", sum(sizes[: len(params)]) >> 20, sum(sizes) >> 20, "MiB of parameters")
        params.append(_place(stored, place, leaf))
    return jax.tree.unflatten(jax.tree.structure(like), params)


def stored_dtype(directory: Path) -> str:
    """The type of a model directory's tensors. Raises WeightsError if they have several, or one not floating."""
    dtypes = {tensor.dtype for tensor in _stored_tensors(directory).values()}
    if len(dtypes) > 1 or not dtypes <= DTYPES.keys():
        raise WeightsError(f"{directory}: tensors of {', '.join(sorted(dtypes))}; choose the type to convert to")
    return DTYPES[dtypes.pop()]


def save_params(
    directory: Path,
    params: Params,
    architecture: Architecture,
    file_bytes: int = FILE_BYTES,
    special_ids: Mapping[str, Any] | None = None,
) -> None:
    """Writes config.json and safetensors of at most `file_bytes` each (with an index, if more than one).

    special_ids: the tokenizer's, for config.json. Every process of a multi-host run must call this; the first writes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, tuple[Callable[[], np.ndarray], int]] = {}  # how to fetch each to the host, and its bytes
    for path, leaf in flatten(params).items():
        place = placement(path, architecture.num_layers)
        for layer, name in enumerate(place.names):
            fetch = partial(_fetch, leaf, layer if place.stacked else None, place.transposed)
            tensors[name] = fetch, leaf.nbytes // len(place.names)
    split = split_state_dict_into_shards_factory(
        {name: nbytes for name, (_, nbytes) in tensors.items()},
        get_storage_size=int,
        filename_pattern="model{suffix}.safetensors",
        max_shard_size=file_bytes,
    )
    writes = jax.process_index() == 0
    for file, names in split.filename_to_tensors.items():
        held = {name: tensors[name][0]() for name in names}
        if writes:
            try:
                save_file(held, directory / file, metadata={"format": "pt"})
            except SafetensorError as error:  # as on a full disk
                raise OSError(f"{directory / file}: {error}; free some space, or choose another directory") from error
            # safetensors lets only the owner read its files; a server that loads them may be another user.
            (directory / file).chmod(directory.stat().st_mode & 0o666)
    if not writes:
        return
    if split.is_sharded:
        index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
        (directory / INDEX).write_text(json.dumps(index, indent=2) + "\n")
    dtype = jax.tree.leaves(params)[0].dtype.name
    write_config(directory, architecture, dtype, special_ids)


def _weight_files(directory: Path) -> list[Path]:
    index = directory / INDEX
    with blamed_on_file(index):
        files = sorted(set(read_json(index)["weight_map"].values())) if index.exists() else [SINGLE]
        absent = [file for file in files if not (directory / file).exists()]
    if absent:
        raise WeightsError(f"{directory}: missing {', '.join(absent)}")
    return [directory / file for file in files]


def _check_tensors(
    directory: Path,
    stored: Mapping[str, _StoredTensor],
    parameters: Mapping[Placement, jax.ShapeDtypeStruct],
    architecture: Architecture,
) -> None:
    expected = {name: place.tensor_shape(leaf.shape) for place, leaf in parameters.items() for name in place.names}
    # Some tools write the tied table twice; transformers ignores the second one too.
    ignored = {"lm_head.weight"} if architecture.tie_embeddings else set()
    complaints = [f"missing {name}" for name in expected if name not in stored]
    complaints += [f"unexpected {name}" for name in stored if name not in expected and name not in ignored]
    complaints += [
        f"{name} has shape {stored[name].shape}, not {shape}"
        for name, shape in expected.items()
        if name in stored and stored[name].shape != shape
    ]
    if complaints:
        raise WeightsError(f"{directory}: {'; '.join(complaints)}")


def _place(stored: Mapping[str, _StoredTensor], place: Placement, leaf: jax.ShapeDtypeStruct) -> jax.Array:
    sharding = leaf.sharding
    assert sharding is not None  # a placed shape has one
    pieces = [
        jax.device_put(_read_piece(stored, place, leaf, index), device)
        for device, index in sharding.addressable_devices_indices_map(leaf.shape).items()
    ]
    return jax.make_array_from_single_device_arrays(leaf.shape, sharding, pieces)


def _read_piece(
    stored: Mapping[str, _StoredTensor], place: Placement, leaf: jax.ShapeDtypeStruct, index: tuple[slice, ...] | None
) -> np.ndarray:
    bounds = [slice(*part.indices(size)[:2]) for part, size in zip(index or (), leaf.shape, strict=True)]
    layers = range(len(place.names))[bounds.pop(0)] if place.stacked else range(1)
    inner = tuple(bounds[::-1] if place.transposed else bounds)
    piece = np.empty((len(layers), *(part.stop - part.start for part in bounds)), leaf.dtype)
    for row, layer in enumerate(layers):
        tensor = stored[place.names[layer]].read(inner)
        piece[row] = tensor.T if place.transposed else tensor
    return piece if place.stacked else piece[0]


def _fetch(leaf: jax.Array, layer: int | None, transposed: bool) -> np.ndarray:
    one = leaf if layer is None else leaf[layer]
    host = np.asarray(one) if one.is_fully_addressable else multihost_utils.process_allgather(one, tiled=True)
    return np.ascontiguousarray(host.T if transposed else host)
