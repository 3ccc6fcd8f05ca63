"""Which tests of a suite hold under the reference solution, and with which answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandbox import Outcome, Status, Test
from sandbox.encoding import same


@dataclass(frozen=True)
class ValidatedSuite:
    """`kept` tests in order, with the reference's value as the expected answer; `invalid` counts the three kinds."""

    kept: tuple[Test, ...]
    invalid: int


def validate_suite(calls: Sequence[str], reference: Sequence[Outcome], stated: Sequence[str | None]) -> ValidatedSuite:
    """Judges each test of a suite against the reference (ALGORITHM, "Validating a suite against s*").

    `reference[i]` is what CALL i did under the reference; `stated[i]` is the canonical encoding of EXPR i, None if
    EXPR has no plain-data value.

    A call that gives no comparable value is invalid and dropped; a repeat of a kept call and value is invalid and
    dropped; a wrong stated answer is invalid yet kept.
    """
    kept: dict[Test, None] = {}
    invalid = 0
    for i, (call, outcome) in enumerate(zip(calls, reference, strict=True)):
        # A nan equals nothing, itself included: no program could ever pass such a test.
        value = outcome.value if outcome.status is Status.RETURNED else None
        if value is None or not same(value, value):
            invalid += 1
            continue
        test = Test(call, value)
        if test in kept:
            invalid += 1
            continue
        kept[test] = None
        answer = stated[i]
        if answer is None or not same(answer, value):
            invalid += 1
    return ValidatedSuite(tuple(kept), invalid)
