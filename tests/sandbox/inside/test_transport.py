"""What two processes say to each other arrives as what it was, or not at all."""

import math
import os
import threading
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy
import pytest
from plain_values import REFERENCES, value_of

from sandbox.inside.encoding import encode
from sandbox.inside.plain import NotPlainData
from sandbox.inside.transport import Malformed, pack, receive, send, unpack


def carried(value: Any) -> Any:
    """The value after its way through a pipe."""
    there, back = os.pipe()
    sending = threading.Thread(target=send, args=(back, value))
    sending.start()
    try:
        return receive(there)
    finally:
        sending.join()
        os.close(there)
        os.close(back)


ARRAYS = [
    numpy.arange(6).reshape(2, 3).T,
    numpy.arange(6)[::2],
    numpy.array(5),
    numpy.array(["a", "é"]),
    numpy.array([], dtype=str),
    numpy.zeros((0, 3)),
    numpy.array([True, False]),
    numpy.array([1, None, "a", [2]], dtype=object),
    numpy.zeros(3, "M8[ns]"),
    numpy.float64(1.5),
    numpy.longdouble(0.1),
    numpy.datetime64("2020-01-01"),
    numpy.str_("ab"),
]


def test_values_cross_with_their_exact_types():
    numbers = [-(1 << 300), [-0.0, math.inf, True, 1, None, "a"] * 500, {1: [(), [()] * 3000]}]
    for value in [*map(value_of, REFERENCES), *ARRAYS, *numbers]:
        for crossed in (carried(value), unpack(pack(value))):
            assert type(crossed).__name__ == type(value).__name__
            if not isinstance(value, int | Fraction | set | frozenset | defaultdict):
                assert repr(crossed) == repr(value)
            if not isinstance(value, numpy.generic | numpy.ndarray):
                assert encode(crossed) == encode(value)


def test_iterators_cross_drained_and_views_as_views():
    for iterator in (iter([1, 2]), map(int, "12"), (n for n in (1, 2)), iter(range(1, 3)), filter(None, [0, 1, 2])):
        assert list(carried([iterator])[0]) == [1, 2]
    assert carried({1: 2}.keys()) == {1}
    assert list(carried({1: 2}.values())) == [2]
    assert carried({1: [2]}.items()) == {1: [2]}.items()


def test_what_cannot_cross_is_not_sent_and_the_next_message_is_read():
    there, back = os.pipe()
    with pytest.raises(NotPlainData):
        send(back, [list(range(8_000)), object()])
    send(back, ["next"])
    assert receive(there) == ["next"]
    os.close(back)
    assert receive(there) is None
    os.close(there)


MALFORMED = {
    "no JSON": b"[[",
    "no UTF-8": b"\xff",
    "too deep for a parser": b"[" * 60_000,
    "two values": b"1,2",
    "an object": b"{}",
    "an object within": b'["list",[{}]]',
    "no parts": b'["list"]',
    "parts that never went ahead": b'["complex",7]',
    "an unknown kind": b'["pickle",["cos"]]',
    "nested too deeply": b'["list",[' * 5_000 + b"]]" * 5_000,
    "an unhashable key": b'["dict",[["list",[]],1]]',
    "half a pair": b'["dict",[1]]',
    "a ratio by zero": b'["Fraction",[1,0]]',
    "no number": b'["Decimal",["x"]]',
    "no date": b'["date",[2020,13,1]]',
    "fields that are no names": b'["namedtuple",[1],"P","x y"]',
    "a class that is no name": b'["namedtuple",[1],"__import__(1)","x"]',
    "a factory that is none": b'["defaultdict",[],"eval"]',
    "an array of addresses": b'["ndarray",["00000000deadbeef"],"|O",[1]]',
    "an array of records": b'["ndarray",["0000"],"O,i4",[1]]',
    "a scalar of nothing": b'["scalar",[],"<f8",[]]',
    "an array larger than its bytes": b'["ndarray",["00"],"<f8",[100000,100000]]',
}


@pytest.mark.parametrize("number", [0, 1])  # the message itself, or parts that go ahead of it
@pytest.mark.parametrize("name", MALFORMED)
def test_a_message_that_no_honest_process_sends_is_malformed(name, number):
    there, back = os.pipe()
    data = b"[%b]" % MALFORMED[name] if number else MALFORMED[name]
    os.write(back, number.to_bytes(8, "big") + len(data).to_bytes(8, "big") + data)
    if number and name in ("an object", "two values"):  # which are parts, or no message
        os.write(back, bytes(8) + (2).to_bytes(8, "big") + b"[]")
    os.close(back)
    with pytest.raises(Malformed):
        receive(there)
    os.close(there)


def test_truth_values_in_an_array_are_true_or_false():
    array = unpack(["ndarray", ["070001"], "|b1", [3]])
    assert array.tobytes() == b"\x01\x00\x01"
