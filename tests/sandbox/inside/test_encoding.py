import datetime
import itertools
import math
import random
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy
import pytest

from sandbox.inside.encoding import MAX_DEPTH, encode, same
from sandbox.inside.plain import NotPlainData
from sandbox.language import encode_literal


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "1"),
        (1.0, "1"),
        (1 + 0j, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e22, "10000000000000000000000"),
        (math.inf, "inf"),
        (2 - 1.5j, "complex(2, -1.5)"),
        ("abc", '"abc"'),
        ('it\'s "é" \\ \n', r'"it' + "'" + r's \"\xe9\" \\ \n"'),
        (b"a'\"\x00", 'b"a\'\\"\\x00"'),
        ([1, (2,), ()], "[1, (2,), ()]"),
        ({"b": 1, "a": [2]}, '{"a": [2], "b": 1}'),
        ({3, 1, 2}, "{1, 2, 3}"),
        (set(), "set()"),
        ({}, "{}"),
        (math.nan, "nan"),
        ([math.nan], "nan in [nan]"),
        (Fraction(1, 3), "1/3"),
        (Decimal("0.50"), "0.5"),
        (Decimal("-12e200000"), "-12e200000"),
        (Counter("aba"), '{"a": 2, "b": 1}'),
        (deque([1, ()]), "deque([1, ()])"),
        (range(1, 8, 3), "range(1, 10, 3)"),
        (bytearray(b"a"), 'b"a"'),
        (datetime.date(2020, 2, 29), "date(2020-02-29)"),
        (datetime.timedelta(hours=25), "timedelta(1, 3600, 0)"),
        (numpy.array([[1, 2.5]]), "array((1, 2), [1, 2.5])"),
        ([[1] * 1500, 2], f"[{encode([1] * 1500)}, 2]"),
    ],
)
def test_plain_data_has_a_readable_canonical_text(value, text):
    assert encode(value) == text


def test_a_long_value_becomes_a_digest_of_its_text():
    assert encode([1] * 5000).startswith("sha256:")
    assert same(encode([1] * 5000), encode([True] * 5000))
    assert not same(encode([1] * 5000), encode([1] * 4999 + [2]))
    assert not same(encode([math.nan] * 5000), encode([math.nan] * 5000))
    assert encode("sha256:" + "0" * 64).startswith('"')


def test_huge_integers_have_a_text():
    assert same(encode(10**5000), encode(10**5000))
    assert not same(encode(10**5000), encode(10**5000 + 1))


def cycle() -> list:
    value: list = []
    value.append(value)
    return value


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_depth_of_one_hundred_is_plain_data_and_no_more():
    assert encode(nested(MAX_DEPTH)) == "[" * MAX_DEPTH + "]" * MAX_DEPTH
    for value in (nested(MAX_DEPTH + 1), cycle()):
        with pytest.raises(NotPlainData):
            encode(value)


def test_literals_are_encoded_without_running_anything():
    assert encode_literal("[1, -2.0, {'a': (True, None)}, 1+2j]") == encode([1, -2.0, {"a": (True, None)}, 1 + 2j])


NO_LITERALS = ["f(1)", "[x for x in 'a']", "2 ** 10", "", "{[]: 1}", "'\0'"]
NO_LITERALS += ["(" * 500, "-" * 15_000 + "1", "1" * 30_000, "[" * 90 + "]" * 90 + "x"]


@pytest.mark.parametrize("expression", NO_LITERALS)
def test_what_is_no_plain_literal_has_no_encoding(expression):
    assert encode_literal(expression) is None


# Where Python's == is not transitive, or says something else than yes or no: what it says, and what we say.
EXCEPTIONS = [
    (Counter(a=1, b=0), Counter(a=1), True, False),
    (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1), False, True),
    (10**100_001, Decimal("1e100001"), True, False),
    (numpy.array([1]), [1], True, False),
    (numpy.float32(0.1), 0.1, True, False),
    (NAN := [math.nan], NAN, True, False),
]


@pytest.mark.parametrize(("first", "second", "python", "ours"), EXCEPTIONS, ids=range(len(EXCEPTIONS)))
def test_the_documented_exceptions_are_these(first, second, python, ours):
    assert bool(first == second) is python
    assert same(encode(first), encode(second)) is ours


def test_arrays_equal_arrays_of_their_shape_and_items():
    array = numpy.array([[1, 2], [3, 4]])
    equal = [array.astype(float), array.T.copy().T, array.astype(object), numpy.array([[True, 2.0], [3, Fraction(4)]])]
    other = [array.T, array.reshape(4), array[:1], array + 1, numpy.zeros((2, 0)), numpy.zeros((0, 2)), array.tolist()]
    for value in equal:
        assert same(encode(array), encode(value))
    for first, second in itertools.combinations([array, *other], 2):
        assert not same(encode(first), encode(second)), (first, second)
    assert encode(numpy.array(5)) == encode(numpy.int8(5)) == "5"
    assert same(encode(numpy.zeros(5000)), encode(numpy.zeros(5000, bool)))
    assert encode(numpy.array([1.0, math.nan])).startswith("nan in ")
    assert encode([numpy.int64(3), numpy.float32(0.5), numpy.bool_(True), numpy.str_("a")]) == '[3, 0.5, 1, "a"]'


def test_a_signalling_nan_equals_nothing():
    assert not same(encode(Decimal("sNaN")), encode(Decimal("sNaN")))


def respelled(value: Any, rng: random.Random) -> Any:
    """An equal value, or one that is nearly equal, of other types."""
    kind = type(value)
    if kind is int:
        spelled = [value, float(value), Fraction(value), Decimal(value), complex(value), value + 1, Fraction(value, 7)]
        return rng.choice([*spelled, bool(value)] if value in (0, 1) else spelled)
    if kind is bytes:
        return rng.choice([value, bytearray(value), value.decode("latin-1")])
    if kind is list:
        items = [respelled(item, rng) for item in value]
        return rng.choice([items, items, deque(items), deque(items, 9), tuple(items), items[::-1]])
    if kind is tuple and len(value) == 2:
        pair = namedtuple(rng.choice("PQ"), "x y")(*[respelled(item, rng) for item in value])
        return rng.choice([pair, tuple(pair), list(pair)])
    if kind is dict:
        pairs = [(respelled(key, rng), respelled(item, rng)) for key, item in value.items()]
        return rng.choice([dict, Counter, OrderedDict, lambda pairs: defaultdict(int, pairs)])(dict(pairs))
    return value


def generated(rng: random.Random, depth: int = 3, hashable: bool = False) -> Any:
    """A small value."""
    kinds = ["scalar"] * 3 + ["tuple"] * (depth > 0) + ["bytes"] * (not hashable)
    kinds += ["list", "dict"] * (depth > 0 and not hashable)
    match rng.choice(kinds):
        case "scalar":
            times = [datetime.date(2020, 1, 1), datetime.timedelta(1), datetime.datetime(2020, 1, 1)]
            return rng.choice([0, 1, 2, -3, 10**23, 2**60, "", "a", "1", *times])
        case "bytes":
            return rng.choice([b"", b"a"])
        case "list":
            return [generated(rng, depth - 1) for _ in range(rng.randint(0, 3))]
        case "tuple":
            return tuple([generated(rng, depth - 1, hashable) for _ in range(2)])
        case _:
            keys = [generated(rng, 1, hashable=True) for _ in range(rng.randint(0, 3))]
            return {key: generated(rng, depth - 1) or 1 for key in keys}  # in Counters a 0 is as good as nothing


def test_texts_agree_with_python_on_values_respelled_at_random():
    rng = random.Random(0)
    equal = 0
    for _ in range(4_000):
        value = generated(rng)
        try:
            first, second = respelled(value, rng), respelled(value, rng)
        except TypeError:  # a key that cannot be one any more
            continue
        if isinstance(first, OrderedDict) and isinstance(second, OrderedDict):
            continue
        equal += first == second
        assert same(encode(first), encode(second)) == (first == second), (first, second)
    assert 1_000 < equal < 3_500
