"""The mistake book: for each question, the tests that its programs failed, by how often.

A page is an ordered map from test to frequency. Pages are values: `updated` returns a new one.

Ties go to the older test, where age is the place on the page; as in the original, a retrieval leaves its order on
the page, so a test that was once ahead stays ahead of its equals.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

RETRIEVED = 8  # the paper's number of book tests a program faces

Test = TypeVar("Test", bound=Hashable)


def retrieved(page: Mapping[Test, int], limit: int = RETRIEVED) -> tuple[Test, ...]:
    """The `limit` most frequent tests; ties go to the older one."""
    return _by_frequency(page)[:limit]


def updated(page: Mapping[Test, int], passed: Iterable[Test], failed: Iterable[Test]) -> dict[Test, int]:
    """The page after a retrieval and one step's valid programs.

    First every pass of a book test takes one from its frequency and a test at zero is removed; then every
    failure of a kept test, repeats counted, adds one or enters the test at the end.
    """
    after = {test: page[test] for test in _by_frequency(page)}
    for test in passed:
        if test in after:
            after[test] -= 1
            if after[test] <= 0:
                del after[test]
    for test in failed:
        after[test] = after.get(test, 0) + 1
    return after


def _by_frequency(page: Mapping[Test, int]) -> tuple[Test, ...]:
    return tuple(sorted(page, key=lambda test: -page[test]))
