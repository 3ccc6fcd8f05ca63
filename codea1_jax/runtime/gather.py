"""What hosts tell each other: what one of them found wrong, and what each has judged.

Each host judges its own share of the questions on its own CPUs, and all know the outcome.

Every host plays the same round; only the judge's work is split. Nothing that a judge has answered may be used before
it was shared: what one host has time for another may not. A host whose judge fails ends; the others, which wait for
its share, end as they do when any host is gone.
"""

import itertools
import pickle
from collections.abc import Callable, Mapping
from typing import TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from codea1_jax.common.errors import UserError

T = TypeVar("T")

_LEAST_ROW = 1024  # bytes
_LONGEST_WAIT = 24 * 60 * 60 * 1000  # milliseconds; a host that has died ends the wait at once
_meetings = itertools.count()


def is_writer() -> bool:
    return jax.process_index() == 0


def on_all(check: Callable[[], T]) -> T:
    """What `check` returns here; raises UserError everywhere if it raises it anywhere."""
    line, value = "", None
    try:
        value = check()
    except UserError as error:
        if jax.process_count() == 1:
            raise
        line = str(error)
    refusals = list(filter(None, _of_all(line)))
    if refusals:
        raise UserError(refusals[0])
    return value  # pyright: ignore[reportReturnType]


def any_host(here: bool) -> bool:
    """Whether it is so on any host. All must ask at the same point of the program."""
    return any(_of_all(here))


def is_mine(index: int) -> bool:
    return index % jax.process_count() == jax.process_index()


def gathered(judge: Callable[[], Mapping[int, T]]) -> dict[int, T]:
    """Everybody's shares together, by index in ascending order; `judge` gives this host's.

    All hosts must ask at the same point of the program.
    """
    outcomes = {index: outcome for share in _of_all(judge()) for index, outcome in share.items()}
    return {index: outcomes[index] for index in sorted(outcomes)}


def from_first(make: Callable[[], T]) -> T:
    """What the first host makes, on all, for work that is not worth splitting."""
    return gathered(lambda: {0: make()} if is_mine(0) else {})[0]


def _of_all(value: T) -> list[T]:
    """What each host has, in the order of the hosts.

    Rows of bytes are as long as the longest, rounded up to a power of two: every new length is a program to compile.
    """
    if jax.process_count() == 1:
        return [value]
    from orbax.checkpoint import multihost  # noqa: PLC0415  a second that a single host need not spend

    # Collectives give up on a host that comes late, as one that still judges may.
    multihost.get_barrier_sync_fn()(key=f"codea1/{next(_meetings)}", timeout_ms=_LONGEST_WAIT)
    own = np.frombuffer(pickle.dumps(value), np.uint8)
    sizes = np.asarray(multihost_utils.process_allgather(np.array(len(own), np.int32)))
    row = np.zeros(max(_LEAST_ROW, 1 << (int(sizes.max()) - 1).bit_length()), np.uint8)
    row[: len(own)] = own
    rows = np.asarray(multihost_utils.process_allgather(row))
    return [pickle.loads(line[:size].tobytes()) for line, size in zip(rows, sizes, strict=True)]
