"""The stand-in for `pytest.approx` says what pytest's own says."""

import itertools
from decimal import Decimal
from fractions import Fraction

import numpy
import pytest

from sandbox.inside.check_code import _Approx

pytestmark = pytest.mark.filterwarnings("ignore")  # numpy's, of nan

NUMBERS = [0, 1, 1.0, 1.0000001, 1.00001, 1.1, 1e6, 1_000_000.5, 1e-13, -1, True, False, 1j, 1 + 1e-9j, Fraction(1, 1)]
NUMBERS += [float("nan"), float("inf"), -float("inf"), Decimal(1), Decimal("1.0000001"), Fraction(10_000_001, 10**7)]
OTHERS = [None, "a", "b", b"a", [1, 2], [1, 2.0000001], (1, 2), [1], [], [True, 1], [None, 1], ["a", 1.0], range(1, 3)]
OTHERS += [{"a": 1.0000001}, {"a": 1}, {"a": 2}, {"b": 1}, {}, {1}]
ARRAYS = [numpy.array([1.0, 2.0]), numpy.array([1, 2.0000001]), numpy.array([[1.0, 2.0]]), [1.0, 2.0], [1, 3], (1, 2)]
OPTIONS = [{}, {"rel": 1e-3}, {"abs": 0.2}, {"abs": 1}, {"rel": 1e-9, "abs": 1e-9}, {"nan_ok": True}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_approximate_equality_is_that_of_pytest(options):
    pairs = [*itertools.product(NUMBERS + OTHERS, repeat=2), *itertools.product(ARRAYS, repeat=2)]
    compared = 0
    for actual, expected in pairs:
        try:
            equal = actual == pytest.approx(expected, **options)
        except TypeError:  # of a set, say
            continue
        compared += 1
        assert (actual == _Approx(expected, **options)) == equal, (actual, expected)
    assert compared > 1_000
