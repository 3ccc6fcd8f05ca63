"""All training state in one atomic Orbax checkpoint per step: arrays, and a JSON document.

A step is written under a temporary name and renamed when it is complete, so a process killed at any instant
leaves either the whole step or none of it. Orbax finds a missing or a shortened file by itself, but not a
flipped bit; so every array has a fingerprint, and the document a digest, verified when a step is restored.

A fingerprint is a sum over an array's elements, which no sharding changes: it is computed on the devices that
hold the array, and a step may be restored onto another mesh.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from jaxtyping import Array, Shaped, UInt32

ARRAYS = "arrays"
DOCUMENT = "document"

_TEMPORARY = "*.orbax-checkpoint-tmp*"


class CheckpointError(OSError):
    """A step that was not saved, or cannot be restored; the message says which, why, and what is left."""


class _Unreadable(Exception):
    """A saved step that does not read back as it was saved; names the item."""


class Checkpoints:
    """The checkpoints of one run, the oldest deleted first. A context manager.

    What an interrupted save has left is removed in the background after opening; the next save waits for that.
    """

    def __init__(self, directory: str | Path, keep_last: int = 2) -> None:
        self._directory = Path(directory).absolute()
        options = ocp.CheckpointManagerOptions(max_to_keep=keep_last, cleanup_tmp_directories=True)
        self._manager = ocp.CheckpointManager(self._directory, options=options)

    def steps(self) -> tuple[int, ...]:
        """The saved steps, oldest first."""
        return tuple(sorted(self._manager.all_steps()))

    def latest(self) -> int | None:
        """The newest saved step, or None."""
        return max(self.steps(), default=None)

    def save(self, step: int, arrays: Any, document: Mapping[str, Any]) -> None:
        """Starts saving; returns when `arrays` may be overwritten, while `wait` returns when all is on disk.

        `arrays` is a pytree of JAX arrays, `document` what JSON can hold.

        Raises:
            CheckpointError: this save or the one before failed (a full disk, say). Earlier steps are intact.
        """
        self.wait()
        content = {"arrays": describe(arrays), "document": document, "digest": _digest(document)}
        items = {ARRAYS: ocp.args.StandardSave(arrays), DOCUMENT: ocp.args.JsonSave(content)}
        with self._naming_failed_saves():
            self._manager.save(step, args=ocp.args.Composite(**items), force=True)

    def wait(self) -> None:
        """Returns when no save is in progress.

        Raises:
            CheckpointError: the save that was in progress failed. Earlier steps are intact.
        """
        with self._naming_failed_saves():
            self._manager.wait_until_finished()

    def restore(self, step: int, like: Any) -> tuple[Any, dict[str, Any]]:
        """The arrays and the document of a saved step, bit for bit.

        `like` is a pytree of arrays or `jax.ShapeDtypeStruct`s: the shapes, types and shardings wanted.

        Raises:
            CheckpointError: there is no such step, its arrays are others than `like`, or it is damaged:
                then the message names the item, and the newest earlier step that is good.
        """
        if step not in self.steps():
            raise CheckpointError(f"{self._directory} has no step {step}; it has {list(self.steps())}")
        try:
            return self._read(step, like)
        except _Unreadable as error:
            raise CheckpointError(
                f"step {step} in {self._directory} is damaged: {error}; {self._advice(step, like)}"
            ) from error

    def close(self) -> None:
        """Waits for the save in progress, raising what `wait` raises, and lets go of the directory."""
        try:
            self.wait()
        finally:
            self._manager.close()

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def _naming_failed_saves(self) -> Iterator[None]:
        # Orbax reports a failed write as whatever its threads met: OSError, or ValueError from tensorstore.
        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:
            for rest in self._directory.glob(_TEMPORARY):  # nothing is being saved now; give the space back
                shutil.rmtree(rest, ignore_errors=True)
            reason = str(error).strip().splitlines()[-1]
            saved = list(self.steps()) or "none"
            raise CheckpointError(
                f"cannot save to {self._directory}: {reason} (steps that are saved: {saved})"
            ) from error

    def _read(self, step: int, like: Any) -> tuple[Any, dict[str, Any]]:
        content = self._read_item(step, DOCUMENT, ocp.args.JsonRestore())
        if not isinstance(content, dict) or content.get("digest") != _digest(content.get("document")):
            raise _Unreadable(f"'{DOCUMENT}' is not what was saved")
        saved: dict[str, Any] = content["arrays"]
        _refuse_differences(step, saved, _shapes(like))
        arrays = self._read_item(step, ARRAYS, ocp.args.StandardRestore(like))
        restored = describe(arrays)
        for name, description in saved.items():
            if restored[name] != description:
                raise _Unreadable(f"'{ARRAYS}/{name}' is not what was saved")
        return arrays, content["document"]

    def _read_item(self, step: int, item: str, args: Any) -> Any:
        try:
            return self._manager.restore(step, args=ocp.args.Composite(**{item: args}))[item]
        except Exception as error:  # Orbax raises a bare Exception for a chunk that cannot be read
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise _Unreadable(f"'{item}' cannot be read ({reason})") from error

    def _advice(self, step: int, like: Any) -> str:
        for earlier in reversed([saved for saved in self.steps() if saved < step]):
            try:
                self._read(earlier, like)
            except _Unreadable:
                continue
            return f"step {earlier} is good"
        return "no earlier step is good"


def describe(arrays: Any) -> dict[str, list[Any]]:
    """By path: type, shape and fingerprint of every array of a tree."""
    fingerprints = jax.device_get(_fingerprints(arrays))
    return {
        name: [*description, int(value)]
        for (name, description), value in zip(_shapes(arrays).items(), jax.tree.leaves(fingerprints), strict=True)
    }


def _shapes(tree: Any) -> dict[str, list[Any]]:
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): [str(leaf.dtype), list(leaf.shape)]
        for path, leaf in jax.tree.leaves_with_path(tree)
    }


@jax.jit
def _fingerprints(arrays: Any) -> Any:
    return jax.tree.map(fingerprint, arrays)


def fingerprint(array: Shaped[Array, "*shape"]) -> UInt32[Array, ""]:
    """Σ over elements of (bits * an odd hash of the place) mod 2³².

    The factor is odd, hence invertible: any change of one element changes the sum.
    """
    width = array.dtype.itemsize * 8
    unsigned = jnp.dtype(f"uint{min(width, 32)}")
    bits = array if array.dtype == bool else jax.lax.bitcast_convert_type(array, unsigned)
    places = jax.lax.iota(jnp.uint32, bits.size).reshape(bits.shape)
    factors = (places * jnp.uint32(2654435761)) | jnp.uint32(1)
    return jnp.sum(bits.astype(jnp.uint32) * factors, dtype=jnp.uint32)


def _digest(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _refuse_differences(step: int, saved: Mapping[str, list[Any]], wanted: Mapping[str, list[Any]]) -> None:
    """Raises CheckpointError if a step holds other arrays than are wanted: another model or method."""
    for name in sorted(saved.keys() | wanted.keys()):
        have = _spelled(saved[name]) if name in saved else "nothing"
        want = _spelled(wanted[name]) if name in wanted else "nothing"
        if have != want:
            raise CheckpointError(f"step {step} holds {have} at '{name}' where {want} is wanted")


def _spelled(description: list[Any]) -> str:
    dtype, shape, *_ = description
    return f"{dtype}{shape}"
