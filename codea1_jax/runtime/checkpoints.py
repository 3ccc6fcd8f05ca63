"""All training state in one atomic Orbax checkpoint per step: arrays, and a JSON document.

A step is complete or it does not count: in a directory it is written under a temporary name and renamed, in a bucket
its last object is the mark that it is complete. So a process killed at any instant leaves the whole step or none of it.
Orbax finds a missing or a shortened file by itself, but not a flipped bit; so every array has a fingerprint, and the
document a digest, verified when a step is restored.
"""

import hashlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import Any

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import AnyPreservationPolicy, EveryNSteps, LatestN

from codea1_jax.common.errors import UserError
from codea1_jax.runtime.fingerprint import describe, shapes
from codea1_jax.runtime.storage import locate

ARRAYS = "arrays"
DOCUMENT = "document"

_TEMPORARY = "*.orbax-checkpoint-tmp*"
_LEAVE_SECONDS = 5.0
# What tensorstore adds to a message, such as its specification of an array.
_ANNOTATION = re.compile(r" \[\w+(\[\d+\])?='")
_OS_ERROR = re.compile(r"\[os_error_code='(\d+)'\]")


def _is_not_orbaxs(record: logging.LogRecord) -> bool:
    """Whether a lost failure of a task is worth reporting: Orbax raises those of its own as well."""
    traceback = record.exc_info[2] if record.exc_info else None
    return not any("orbax" in frame.f_code.co_filename for frame, _ in walk_tb(traceback))


logging.getLogger("asyncio").addFilter(_is_not_orbaxs)


class CheckpointError(OSError):
    """A step that was not saved, or cannot be restored; the message names it, why, and what is left."""


class Checkpoints:
    """The checkpoints of one run, in a directory or at gs://bucket/path. A context manager.

    The newest `keep_last` stay, and one every `keep_every` steps (0: none). What an interrupted save has left is
    removed in the background after opening, and the next save waits for that; with `read_only` nothing is touched.
    """

    def __init__(
        self, directory: str | Path, keep_last: int = 2, keep_every: int = 0, *, read_only: bool = False
    ) -> None:
        self._directory = locate(str(directory))
        regular = [EveryNSteps(keep_every)] if keep_every else []
        options = ocp.CheckpointManagerOptions(
            preservation_policy=AnyPreservationPolicy([LatestN(keep_last), *regular]),
            cleanup_tmp_directories=not read_only,
            read_only=read_only,
        )
        # What several hosts hold is written by one: shares would be cut by programs that compile during a step.
        writer = ocp.type_handlers.ArrayHandler(use_replica_parallel=False)
        types = ocp.type_handlers.create_type_handler_registry((jax.Array, writer))
        arrays = ocp.PyTreeCheckpointHandler(type_handler_registry=types)
        handlers = {ARRAYS: arrays, DOCUMENT: ocp.JsonCheckpointHandler()}
        self._manager = ocp.CheckpointManager(self._directory, options=options, item_handlers=handlers)

    def steps(self) -> tuple[int, ...]:
        return tuple(sorted(self._manager.all_steps()))

    def latest(self) -> int | None:
        return max(self.steps(), default=None)

    def save(self, step: int, arrays: Any, document: Mapping[str, Any]) -> None:
        """Starts saving; returns when `arrays` may be overwritten, while `wait` returns when all is on disk.

        `arrays` is a pytree of JAX arrays, `document` what JSON can hold.
        Raises CheckpointError if this save or the one before failed, as on a full disk. Earlier steps are intact.
        """
        self.wait()
        content = {"arrays": describe(arrays), "document": document, "digest": _digest(document)}
        items = {ARRAYS: ocp.args.PyTreeSave(arrays), DOCUMENT: ocp.args.JsonSave(content)}
        with self._naming_failed_saves():
            self._manager.save(step, args=ocp.args.Composite(**items), force=True)

    def check(self) -> None:
        """Raises what `wait` raises if the save in progress has failed already; does not wait."""
        if not self._manager.is_saving_in_progress():
            self.wait()

    def wait(self) -> None:
        """Returns when no save is in progress. Raises CheckpointError if one has failed; earlier steps are intact."""
        with self._naming_failed_saves():
            self._manager.wait_until_finished()

    def restore(self, step: int, like: Any, *, whole: bool = True) -> tuple[Any, dict[str, Any]]:
        """The arrays and the document of a saved step, bit for bit.

        `like` is a pytree of arrays or `jax.ShapeDtypeStruct`s: the shapes, types and shardings wanted; unless `whole`,
        a nested dict of some of the arrays. Raises UserError for a step that was never saved, or has been deleted, and
        CheckpointError if its arrays are others than `like`, or it is damaged: then the message names the item.
        """
        content, wanted = self._content(step), shapes(like)
        saved: dict[str, Any] = content["arrays"]
        if not whole:
            saved = {name: description for name, description in saved.items() if name in wanted}
        _refuse_differences(step, saved, wanted)
        each = ocp.checkpoint_utils.construct_restore_args(like)
        args = ocp.args.PyTreeRestore(like, restore_args=each, partial_restore=not whole)
        arrays = self._read_item(step, ARRAYS, args)
        restored = describe(arrays)
        for name, description in saved.items():
            if restored[name] != description:
                raise self._damaged(step, f"'{ARRAYS}/{name}' is not what was saved")
        return arrays, content["document"]

    def look(self, step: int) -> tuple[dict[str, list[Any]], dict[str, Any]]:
        """Type, shape and fingerprint of a step's arrays by path, and its document, without reading the arrays.

        Raises UserError for a step that was not saved, CheckpointError for a document that is damaged.
        """
        content = self._content(step)
        return content["arrays"], content["document"]

    def close(self) -> None:
        """Waits for the save in progress, raising what `wait` raises, and lets go of the directory."""
        try:
            self.wait()
        finally:
            with self._naming_failed_saves():
                self._manager.close()

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def _naming_failed_saves(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # Orbax reports a failed write as whatever its threads met
            if isinstance(self._directory, Path):
                _remove_unfinished(self._directory)
            saved = list(self.steps()) or "none"
            raise CheckpointError(
                f"cannot save to {self._directory}: {_reason(error)} (steps that are saved: {saved}); "
                "free some space or fix the storage, then repeat the command, or resume the run"
            ) from error

    def _content(self, step: int) -> dict[str, Any]:
        if step not in self.steps():
            raise UserError(f"{self._directory} has no step {step}; it has {list(self.steps())}")
        content = self._read_item(step, DOCUMENT, ocp.args.JsonRestore())
        if not isinstance(content, dict) or content.get("digest") != _digest(content.get("document")):
            raise self._damaged(step, f"'{DOCUMENT}' is not what was saved")
        return content

    def _read_item(self, step: int, item: str, args: Any) -> Any:
        try:
            return self._manager.restore(step, args=ocp.args.Composite(**{item: args}))[item]
        except Exception as error:  # Orbax raises a bare Exception for a chunk that cannot be read
            raise self._damaged(step, f"'{item}' cannot be read ({_reason(error)})") from error

    def _damaged(self, step: int, what: str) -> CheckpointError:
        return CheckpointError(f"step {step} in {self._directory} is damaged: {what}")


def _remove_unfinished(directory: Path) -> None:
    """Gives the space of failed saves back. Orbax's other threads may still be writing for a moment."""
    until = time.monotonic() + _LEAVE_SECONDS
    while (left := list(directory.glob(_TEMPORARY))) and time.monotonic() < until:
        for rest in left:
            shutil.rmtree(rest, ignore_errors=True)
        time.sleep(0.05)


def _reason(error: BaseException) -> str:
    """What went wrong at first, in one line: in the operating system's words where it comes from there."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    if code := _OS_ERROR.search(text):
        return os.strerror(int(code[1]))
    return _ANNOTATION.split(text)[0]


def _digest(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _refuse_differences(step: int, saved: Mapping[str, list[Any]], wanted: Mapping[str, list[Any]]) -> None:
    for name in sorted(saved.keys() | wanted.keys()):
        have = _spelled(saved[name]) if name in saved else "nothing"
        want = _spelled(wanted[name]) if name in wanted else "nothing"
        if have != want:
            raise CheckpointError(f"step {step} holds {have} at '{name}' where {want} is wanted")


def _spelled(description: list[Any]) -> str:
    dtype, shape, *_ = description
    return f"{dtype}{shape}"
