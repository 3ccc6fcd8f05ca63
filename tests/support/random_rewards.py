"""Random cases of one suite against one program, the same for every run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

COUNT = 20_000


@dataclass(frozen=True)
class Case:
    """What a suite and a program did. An invalid program fails every test; a suite may be empty."""

    code_valid: bool
    failed: tuple[bool, ...]
    invalid: int
    book_passed: int
    book_total: int
    response: str
    alpha: float


def cases() -> Iterator[Case]:
    """`COUNT` cases: a tenth of the programs are invalid, a fifth of the suites empty, a third of the books."""
    draw = random.Random(0)
    for _ in range(COUNT):
        valid = draw.random() > 0.1
        kept = 0 if draw.random() < 0.2 else draw.randint(1, 14)
        hard = draw.random()
        book = 0 if draw.random() < 1 / 3 else draw.randint(1, 8)
        odd = 0 if draw.random() < 0.7 else draw.randint(0, 20)
        yield Case(
            code_valid=valid,
            failed=tuple(not valid or draw.random() < hard for _ in range(kept)),
            invalid=draw.randint(0, 12),
            book_passed=draw.randint(0, book) if valid else 0,
            book_total=book,
            response="é" * odd + "assert f(1) == 1"[: draw.randint(1, 16)],
            alpha=draw.choice((0.0, 0.25, 0.5, 0.75, 1.0)),
        )
