import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import jax
import numpy as np

from codea1_jax.common.errors import UserError

# What broken kernels and devices raise. Anything else is a bug of ours.
_FAILURES = (jax.errors.JaxRuntimeError, FloatingPointError, ValueError, NotImplementedError, OSError, UserError)


@dataclass(frozen=True)
class Row:
    name: str
    passed: bool
    expected: str
    measured: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Check:
    name: str
    run: Callable[[], Iterable[Row]]


def perform(checks: Sequence[Check]) -> Iterator[Row]:
    """The rows of all checks in turn; a check that raises gives one row, which says why."""
    for check in checks:
        began = time.perf_counter()
        try:
            rows = list(check.run())
        except _FAILURES as error:
            reason = " ".join(str(error).split())[:200]
            rows = [Row(check.name, False, "runs", f"{type(error).__name__}: {reason}")]
        each = (time.perf_counter() - began) / max(len(rows), 1)
        yield from (replace(row, seconds=each) for row in rows)


def within(name: str, error: float, most: float) -> Row:
    return Row(name, bool(error <= most), f"error at most {most:.1g}", f"{error:.1e}")


def relative_error(measured: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(measured - expected)) / np.max(np.abs(expected)))
