"""Inside the jail: what an expression may do while it is computed, within bounds that are the same on every machine.

The host writes an expression's calls, loops, products and hash tables as calls of the names here (see `bounded` in
`sandbox.grammar`). Each is charged for the items that it goes through before it does so, and nothing may grow over a
size that no argument could have. Iterators become lists, so that it does not matter how often something is read.

A set or a dict of an argument holds nothing that is hashed by its address, whose order would differ between processes.
Sets have the order of their content, because ``==`` ignores how they came about; dicts have their own.
"""

from collections.abc import Callable, Iterable
from typing import Any

from sandbox.inside.observation import BUILTINS, in_order, turned
from sandbox.inside.plain import SET_VIEWS, VALUES_VIEW, NotPlainData
from sandbox.inside.transport import DRAINED

MAX_STEPS = 400_000  # items that one expression may go through
MAX_ITEMS = 100_000  # of one container
MAX_TEXT = 1_000_000  # characters, or bytes
MAX_BITS = 1 << 17  # of one integer

_SETS = (set, frozenset)
_HASH_TABLES = (*_SETS, dict, *SET_VIEWS)
_TEXTS = (str, bytes)
_SIZED = frozenset((*_HASH_TABLES, *_TEXTS, list, tuple, range, VALUES_VIEW))
_BY_CONTENT = frozenset((type(None), bool, int, str, bytes, range))


def names(is_view: bool, turn: int = 0) -> dict[str, Any]:
    """The names of one expression: builtins that differ from Python's, and what the host puts in.

    is_view: of one about a returned value. turn: how far the sets that it goes through are rotated (see `in_order`).
    """
    bounds = _Bounds(is_view, turn)
    return BUILTINS | {
        "pow": bounds.power,
        "_run_": bounds.run,
        "_each_": bounds.each,
        "_made_": bounds.made,
        "_times_": bounds.times,
        "_power_": bounds.power,
        "_shift_": bounds.shift,
    }


class _Bounds:
    """The steps that one expression has left. Every method raises NotPlainData where a bound is passed."""

    def __init__(self, is_view: bool, turn: int) -> None:
        self._is_view = is_view
        self._turn = turn
        self._left = MAX_STEPS

    def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self._charge(1 + _size(getattr(function, "__self__", None)) + sum(map(_size, args)))
        return self.made(function(*map(self._turned, args), **kwargs))

    def each(self, iterable: Any) -> Any:
        self._charge(1 + _size(iterable))
        return self._turned(iterable)

    def made(self, value: Any) -> Any:
        kind = type(value)
        if kind in DRAINED:
            return list(map(self.made, value))
        if kind is int:
            _check_bits(value.bit_length())
        elif kind in _SIZED:
            _check_size(value, 1)
            if kind is VALUES_VIEW:
                return list(value)
            if kind in _HASH_TABLES and not self._is_view:
                _check_hashed(value)
            if kind in _SETS:
                return in_order(value)
        return value

    def times(self, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int):
            _check_bits(left.bit_length() + right.bit_length())
        for sequence, count in ((left, right), (right, left)):
            if isinstance(count, int) and type(sequence) in _SIZED:
                _check_size(sequence, count)
                self._charge(0 if type(sequence) in _TEXTS else max(0, _size(sequence) * count))
        return left * right

    def power(self, base: Any, exponent: Any, *modulus: Any) -> Any:
        if isinstance(base, int) and isinstance(exponent, int) and not modulus:
            _check_bits(base.bit_length() * exponent if abs(base) > 1 else 0)
        return pow(base, exponent, *modulus)

    def shift(self, value: Any, places: Any) -> Any:
        if isinstance(value, int) and isinstance(places, int):
            _check_bits(value.bit_length() + places)
        return value << places

    def _turned(self, value: Any) -> Any:
        return turned(value, self._turn) if self._turn and type(value) in _SETS and len(value) > 1 else value

    def _charge(self, steps: int) -> None:
        if self._is_view:  # the value's own size bounds what is done with it, with the time of a call
            return
        self._left -= steps
        if self._left < 0:
            raise NotPlainData(f"an expression of more than {MAX_STEPS} steps")


def _size(value: Any) -> int:
    if type(value) not in _SIZED:
        return 0
    try:
        return len(value)
    except OverflowError:  # of a range
        return MAX_STEPS


def _check_size(value: Any, times: int) -> None:
    most = MAX_TEXT if type(value) in _TEXTS else MAX_ITEMS
    if _size(value) * times > most:
        raise NotPlainData(f"a {type(value).__name__} of more than {most} items")


def _check_bits(count: int) -> None:
    if count > MAX_BITS:
        raise NotPlainData(f"an integer of more than {MAX_BITS} bits")


def _check_hashed(items: Iterable[Any]) -> None:
    if set(map(type, items)) <= _BY_CONTENT:
        return
    for item in items:
        kind = type(item)
        if kind in (tuple, frozenset):
            _check_hashed(item)
        elif kind in (float, complex):
            if item != item:  # noqa: PLR0124  (a nan)
                raise NotPlainData("a nan in a set, or as a key")
        elif kind not in _BY_CONTENT:
            raise NotPlainData(f"a set, or keys, of type {kind.__name__}")
