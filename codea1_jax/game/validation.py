"""Which tests of a suite hold under the reference solution, and with which answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from codea1_jax.game.tasks import function
from sandbox import EXACT, Outcome, Status, Test, Tolerance, same

Repeats = Literal["value", "text"]


@dataclass(frozen=True)
class ValidatedSuite:
    """`kept` tests in order, with the reference's value as the expected answer; `invalid` counts all that are wrong.

    mistaken: those of `kept` that had stated another answer. hung: the script that this suite belongs to did not end in
    its time, so that no test of it is kept.
    """

    kept: tuple[Test, ...]
    invalid: int
    mistaken: frozenset[Test] = frozenset()
    hung: bool = False


def validate_suite(
    calls: Sequence[str],
    reference: Sequence[Outcome],
    stated: Sequence[str | None],
    repeats: Repeats = "value",
    tolerance: Tolerance = EXACT,
    view: Callable[[str], str] = function.view,
) -> ValidatedSuite:
    """Judges each test of a suite against the reference (ALGORITHM, "Validating a suite against s*").

    `reference[i]` is what CALL i did under the reference; `stated[i]` is the canonical encoding of EXPR i, None if
    EXPR has no plain-data value. `tolerance` is the question's, by which stated answers and programs are compared.
    `view` says what a test looks at in the result.

    A call that gives no comparable value is invalid and dropped; so is a test whose stated answer has no value, and a
    repeat. A wrong stated answer is invalid yet kept. By "value", a test repeats another if it has the same inputs,
    however its call is spelled and whatever it looks at in the result; by "text", if call and value are written the
    same.
    """
    kept: dict[str, Test] = {}
    mistaken: set[Test] = set()
    invalid = 0
    for i, (call, outcome) in enumerate(zip(calls, reference, strict=True)):
        # A nan equals nothing, itself included: no program could ever pass such a test.
        value = outcome.value if outcome.status is Status.RETURNED else None
        answer = stated[i]
        if value is None or not same(value, value) or answer is None:
            invalid += 1
            continue
        same_as = outcome.inputs if repeats == "value" else f"{call} == {value}"
        if not same_as or same_as in kept:  # or its inputs cannot be compared
            invalid += 1
            continue
        # In the book and among siblings' tests, another look at the result is another test.
        inputs = f"{outcome.inputs} {view(call)}" if repeats == "value" else ""
        kept[same_as] = Test(call, value, inputs, tolerance)
        if not tolerance.same(answer, value):
            invalid += 1
            mistaken.add(kept[same_as])
    return ValidatedSuite(tuple(kept.values()), invalid, frozenset(mistaken))
