"""What the tests of a suite find: what it can earn in the place of the paper's adversarial term, `rewards.test_value`.

    discrimination   the siblings that are wrong                    UTRL (arXiv 2508.21107), CURE (arXiv 2506.03136)
    regression       the siblings that fail the mistake book        ours
    mutation         mutants of the reference                       MIST-RL (arXiv 2603.01409)
    coverage         branches of the reference                      TestDecision (arXiv 2604.01799)

With a price for redundancy, mutation is MIST-RL's incremental reward; its penalty is dynamic, this one constant.
Everything here is a pure function. Siblings are a question's programs that execute, the suite's own included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sandbox import Outcome, Test, verdict_on

Found = Mapping[Test, frozenset[int]]
"""By each valid test of a question, the programs that fail it, or the branches that it takes, by their numbers."""


@dataclass(frozen=True)
class Finds:
    """What each valid test of a question finds, and how many there are to find."""

    by_test: Found
    total: int


def worth(kept: Sequence[Test], finds: Finds, suite_size: int, redundancy_price: float) -> float:
    """The share that a suite's first K tests find together, less the price for each that finds nothing new; 0 to 1.

    |∪ found| / total − price · redundant / K. The share depends on no order; which tests are redundant does: those
    whose finds the tests before them have. Where nothing is to be found, 0.
    """
    known: frozenset[int] = frozenset()
    redundant = 0
    for test in kept[:suite_size]:
        redundant += finds.by_test[test] <= known
        known |= finds.by_test[test]
    return max(0.0, len(known) / finds.total - redundancy_price * redundant / suite_size) if finds.total else 0.0


def failing(tests: Iterable[Test], programs: Mapping[int, Mapping[str, Outcome]]) -> Found:
    """By each test, the programs that fail it; `programs` are what each gave, by the call's text."""
    return {
        test: frozenset(i for i, by_call in programs.items() if not verdict_on(by_call[test.call], test).passed)
        for test in dict.fromkeys(tests)
    }


def discrimination(failed: Found, on_book: frozenset[int]) -> Finds:
    """Wrong siblings, found by the tests that they fail.

    Wrong are those that any valid test of the question fails, or one of its book (`on_book`); a right program passes
    all of these, as the reference does. UTRL counts the suite's kills among all samples: the same up to a factor that
    is common to a question's suites.
    """
    return Finds(failed, len(on_book.union(*failed.values())))


def regression(failed: Found, on_book: frozenset[int]) -> Finds:
    """Siblings that fall back into a bug that the question's book remembers, found by the tests that they fail.

    The book remembers tests and not programs: a program has a remembered bug if it fails one of them.
    """
    return Finds({test: programs & on_book for test, programs in failed.items()}, len(on_book))


SIBLING_VALUES: Mapping[str, Callable[[Found, frozenset[int]], Finds]] = {
    "discrimination": discrimination,
    "regression": regression,
}
