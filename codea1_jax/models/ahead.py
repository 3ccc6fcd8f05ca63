"""Programs compiled before they are called: in threads, side by side, while devices and the host do other things.

`jax.jit` keeps what is lowered and compiled ahead of a call, so a call with arguments like those compiles nothing.
Python traces one program at a time; XLA compiles without holding Python's lock.
"""

import os
from collections.abc import Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.stages import Compiled, Lowered

from codea1_jax.common.activity import report

MOST_AT_ONCE = 4  # each takes up to a few GB of the host's memory for a large model
_REPORT_SECONDS = 1.0


class CompileAhead:
    """Programs that are being compiled, or have been, by a key of the caller's.

    Where several processes run one program, each compiles when it calls, because their order must be the same.
    """

    def __init__(self) -> None:
        self._started: dict[Hashable, Future[None]] = {}

    def start(self, key: Hashable, program: Any, *arguments: Any) -> None:
        """Begins to compile a jitted function for arguments like these, or of these shapes, unless it has begun."""
        if jax.process_count() == 1 and key not in self._started:
            self._started[key] = _threads().submit(_compile, program, arguments)

    def wait(self, key: Hashable) -> None:
        """Waits for that program, if it was started. Raises what its compilation raises."""
        if key not in self._started:
            return
        futures = self._started.values()
        while wait([self._started[key]], timeout=_REPORT_SECONDS).not_done:
            report("compiling", sum(future.done() for future in futures), len(futures), "XLA programs")
        self._started[key].result()


def compile_all(programs: Sequence[Lowered]) -> list[Compiled]:
    """All of them, side by side; one after another where several processes must compile in the same order."""
    if jax.process_count() > 1:
        return [program.compile() for program in programs]
    return list(_threads().map(Lowered.compile, programs))


def shapes_of(tree: Any) -> Any:
    """Shapes, types and, of arrays that are placed, shardings: what a program is compiled for."""

    def shape(x: Any) -> jax.ShapeDtypeStruct:
        sharding = x.sharding if isinstance(x, jax.Array) and x.committed else None
        dtype = jax.dtypes.canonicalize_dtype(x.dtype) if isinstance(x, np.ndarray) else x.dtype  # as a call takes it
        return jax.ShapeDtypeStruct(x.shape, dtype, sharding=sharding)

    return jax.tree.map(shape, tree)


def _compile(program: Any, arguments: tuple[Any, ...]) -> None:
    program.lower(*arguments).compile()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(MOST_AT_ONCE, os.cpu_count() or 1), "compile")
