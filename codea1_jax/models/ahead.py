"""Programs compiled before they are called: in threads, side by side, while devices and the host do other things.

`jax.jit` keeps what is lowered and compiled ahead of a call, so a call with arguments like those compiles nothing.
Python traces one program at a time; XLA compiles without holding Python's lock.
"""

import os
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, Literal

import jax
import numpy as np
from jax.stages import Lowered

from codea1_jax.common.activity import report
from codea1_jax.runtime.devices import return_freed_memory

MOST_AT_ONCE = 4  # each takes up to a few GB of the host's memory for a large model
_REPORT_SECONDS = 1.0
_STARTED: list[Future[None]] = []  # in this process, for one count of all
_REMEMBERED = 128  # programs that do not begin twice

Sampling = Literal["weights", "prefill", "decode", "evaluate"]
Kind = Literal[Sampling, "score-old", "score-ref", "gradient", "clear", "update", "fingerprint"]


@dataclass(frozen=True, eq=False)
class Program:
    """A jitted function for arguments of some shapes; equal to others of the same function and shapes.

    kind: of the phase that calls it. shape: what distinguishes it from others of the kind. static: the function's first
    arguments, which are hashed; the others are shapes, placed where a call's lie.
    """

    kind: Kind
    shape: tuple[int, ...]
    function: Any
    static: tuple[Hashable, ...]
    arguments: tuple[Any, ...]

    @cached_property
    def _key(self) -> Hashable:
        leaves, tree = jax.tree.flatten(self.arguments)
        return self.function, self.static, tree, tuple((x.shape, x.dtype, x.sharding) for x in leaves)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self._key == other._key

    def lower(self) -> Lowered:
        return self.function.lower(*self.static, *self.arguments)

    def compile(self) -> None:
        lowered = self.lower()
        return_freed_memory()  # of programs that ran
        lowered.compile()
        return_freed_memory()  # of the compiler, hundreds of megabytes


class CompileAhead:
    """Programs that are being compiled, or have been.

    Where several processes run one program, each compiles at once, because their order must be the same.
    """

    def __init__(self) -> None:
        self._futures: dict[Program, Future[None]] = {}
        self._deferred: dict[tuple[Kind, tuple[int, ...]], list[Program]] = {}

    def start(self, programs: Iterable[Program], *, defer: Kind | None = None) -> list[Program]:
        """Begins to compile those that have not begun; returns all of them. defer: a kind that waits for `begin`."""
        programs = list(programs)
        for program in programs:
            if program.kind == defer:
                self._deferred.setdefault((program.kind, program.shape), []).append(program)
            else:
                self._futures[program] = _begin(program)
        return programs

    def begin(self, kind: Kind, shape: tuple[int, ...]) -> None:
        """Begins to compile those of this kind and shape that were deferred."""
        self.start(self._deferred.pop((kind, shape), []))

    def wait(self, kind: str | None = None, shape: tuple[int, ...] | None = None) -> None:
        """Waits for those of this kind and shape, or of any. Raises what a compilation raises."""
        for _ in self.progress(kind, shape):
            report("compiling", sum(future.done() for future in _STARTED), len(_STARTED), "programs")

    def progress(self, kind: str | None = None, shape: tuple[int, ...] | None = None) -> Iterator[tuple[int, int]]:
        """As `wait`; yields how many are done, and of how many, now and then until all are."""
        futures = [
            future
            for program, future in self._futures.items()
            if kind in (None, program.kind) and shape in (None, program.shape)
        ]
        while waiting := wait(futures, timeout=_REPORT_SECONDS).not_done:
            yield len(futures) - len(waiting), len(futures)
        for future in futures:
            future.result()


def wait_for_all() -> None:
    """Until everything is compiled that anybody asked for. Raises what a compilation raises."""
    for future in _STARTED:
        future.result()


def drop_waiting() -> None:
    """No program begins to be compiled that has not begun: whoever asked for it is about to end."""
    _begin.cache_clear()
    for future in _STARTED:
        future.cancel()
    _STARTED.clear()


@lru_cache(_REMEMBERED)
def _begin(program: Program) -> Future[None]:
    if jax.process_count() == 1:
        future = _threads().submit(program.compile)
    else:
        program.compile()
        (future := Future()).set_result(None)
    _STARTED.append(future)
    return future


def shapes_of(tree: Any) -> Any:
    """Shapes, types and, of arrays that are placed, shardings: what a program is compiled for."""

    def shape(x: Any) -> jax.ShapeDtypeStruct:
        if isinstance(x, jax.ShapeDtypeStruct):
            return x
        sharding = x.sharding if isinstance(x, jax.Array) and x.committed else None
        dtype = jax.dtypes.canonicalize_dtype(x.dtype) if isinstance(x, np.ndarray) else x.dtype  # as a call takes it
        return jax.ShapeDtypeStruct(x.shape, dtype, sharding=sharding)

    return jax.tree.map(shape, tree)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(MOST_AT_ONCE, os.cpu_count() or 1), "compile")
