import itertools
import math
import random

import numpy
import pytest

from sandbox.encoding import MAX_DEPTH, NotPlainData, encode, same
from sandbox.literals import encode_literal


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
    ],
)
def test_plain_data_has_a_readable_canonical_text(value, text):
    assert encode(value) == text


def plain_values() -> list:
    scalars = [
        None,
        0,
        1,
        -1,
        True,
        False,
        0.0,
        -0.0,
        1.0,
        0.5,
        10**22,
        1e22,
        2**53 + 1,
        float(2**53),
        math.inf,
        -math.inf,
    ]
    scalars += [
        1j,
        complex(1, -0.0),
        "",
        "1",
        "nan",
        "None",
        b"",
        b"1",
        "a'",
        'a"',
        "a\\'",
        "\\x41",
        "A",
        "\ud83d\ude00",
        "😀",
        "\x00",
    ]
    rng = random.Random(0)
    hashable = [*scalars, (), (1,), (True,), ((),), frozenset(), frozenset({1}), ("a", "b"), ('a", "b',)]
    values = [
        *hashable,
        [],
        [1],
        [[]],
        ["a", "b"],
        ['a", "b'],
        set(),
        {1},
        {1.0},
        {},
        {1: 2},
        {True: 2.0},
        {"a": [1]},
        {(1,): {2}},
    ]
    values += [rng.sample(hashable, 3) for _ in range(20)]
    values += [dict.fromkeys(rng.sample(hashable, 4), rng.choice(hashable)) for _ in range(20)]
    values += [set(rng.sample(hashable, 4)) for _ in range(20)]
    return values


def test_texts_are_equal_exactly_where_python_calls_the_values_equal():
    for first, second in itertools.product(plain_values(), repeat=2):
        assert same(encode(first), encode(second)) == (first == second), (first, second)


def test_texts_are_printable_ascii():
    assert all(encode(value).isascii() and encode(value).isprintable() for value in plain_values())


def test_a_nan_is_equal_to_nothing_however_deep():
    for value in (math.nan, [math.nan], {1: (math.nan,)}, complex(math.nan, 1)):
        assert not same(encode(value), encode(value))
    assert same(encode("nan"), encode("nan"))


def test_a_long_value_becomes_a_digest_of_its_text():
    assert encode([1] * 5000).startswith("sha256:")
    assert same(encode([1] * 5000), encode([True] * 5000))
    assert not same(encode([1] * 5000), encode([1] * 4999 + [2]))
    assert not same(encode([math.nan] * 5000), encode([math.nan] * 5000))
    assert encode("sha256:" + "0" * 64).startswith('"')


def test_huge_integers_have_a_text():
    assert same(encode(10**5000), encode(10**5000))
    assert not same(encode(10**5000), encode(10**5000 + 1))


class Int(int):
    pass


class AlwaysEqual:
    __hash__ = None

    def __eq__(self, other):
        return True


def cycle() -> list:
    value: list = []
    value.append(value)
    return value


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth - 1):
        value = [value]
    return value


def doubling(depth: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        Int(1),
        AlwaysEqual(),
        [AlwaysEqual()],
        object,
        len,
        range(3),
        bytearray(b"a"),
        iter([]),
        {1: Int(2)},
        cycle(),
        nested(101),
        doubling(60),
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_not_plain_data(value):
    with pytest.raises(NotPlainData):
        encode(value)


def test_depth_of_one_hundred_is_plain_data():
    assert encode(nested(MAX_DEPTH)) == "[" * MAX_DEPTH + "]" * MAX_DEPTH


def test_numpy_scalars_count_as_python_values_and_arrays_do_not():
    assert encode([numpy.int64(3), numpy.float32(0.5), numpy.bool_(True), numpy.str_("a")]) == '[3, 0.5, 1, "a"]'
    for value in (numpy.zeros(2), numpy.datetime64("2020-01-01"), numpy.longdouble(1)):
        with pytest.raises(NotPlainData):
            encode(value)


def test_literals_are_encoded_without_running_anything():
    assert encode_literal("[1, -2.0, {'a': (True, None)}, 1+2j]") == encode([1, -2.0, {"a": (True, None)}, 1 + 2j])


@pytest.mark.parametrize(
    "expression",
    [
        "f(1)",
        "[x for x in 'a']",
        "2 ** 10",
        "",
        "{[]: 1}",
        "(" * 500,
        "-" * 15_000 + "1",
        "1" * 30_000,
        "'\0'",
        "[" * 90 + "]" * 90 + "x",
    ],
)
def test_what_is_no_plain_literal_has_no_encoding(expression):
    assert encode_literal(expression) is None
