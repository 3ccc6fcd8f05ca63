"""Inside the jail: arguments whose hashes collide are refused.

A set or a dict is fast only where hashes differ. Arguments made to share one hash would fail a program that looks its
input up in a set and not one that sorts it, which the question does not distinguish. Python's hashes of numbers,
tuples and frozensets are easily made to agree: multiples of 2**61 - 1, -1 and -2, and whatever is made of these.

Two things are looked at: what a program may make a key of (each number or text; each sequence as a tuple, or as a
frozenset), and whether sums of the integers could reach 2**61 - 1, where hashes start again.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import Any

from sandbox.inside.expressions import MAX_ITEMS
from sandbox.inside.plain import SET_VIEWS, NotPlainData

MAX_COLLIDING = 400  # values that may share a hash with another: some 80,000 comparisons

_RUN = 8  # and more neighbours that collide make parts of a sequence collide
_MODULUS = (1 << 61) - 1  # of the hashes of numbers
_CONTAINERS = frozenset((list, tuple, set, frozenset, *SET_VIEWS))


def checked(value: Any) -> Any:
    """`value`, which is plain data. Raises NotPlainData where too much in it collides."""
    scalars: list[Any] = []
    containers: list[Any] = []
    _gather([value], scalars, containers)
    _check_scalars(scalars)
    if len(containers) > MAX_COLLIDING:
        _check_containers([_frozen(container) for container in containers])
    return value


def _gather(items: Collection[Any], scalars: list[Any], containers: list[Any]) -> None:
    kinds = set(map(type, items))
    if len(scalars) + len(containers) + len(items) > MAX_ITEMS:
        raise NotPlainData(f"arguments of more than {MAX_ITEMS} items")
    if not kinds & (_CONTAINERS | {dict}):
        scalars.extend(items)
        return
    for item in items:
        kind = type(item)
        if kind is dict:
            _gather([*item.keys(), *item.values()], scalars, containers)
        elif kind in _CONTAINERS:
            containers.append(item)
            _gather(item, scalars, containers)
        else:
            scalars.append(item)


def _check_scalars(scalars: list[Any]) -> None:
    integers = [item for item in scalars if type(item) is int]
    if len(integers) > MAX_COLLIDING and sum(map(abs, integers)) >= _MODULUS:
        raise NotPlainData(f"more than {MAX_COLLIDING} integers that add up to 2**61 or more")
    times = Counter(map(hash, _distinct(scalars, integers)))
    shared = {key for key, count in times.items() if count > 1}
    if not shared:
        return
    colliding = [_is_hashable(item) and hash(item) in shared for item in scalars]
    runs = [len(list(run)) for collides, run in groupby(colliding) if collides]
    if sum(times[key] - 1 for key in shared) > MAX_COLLIDING or sum(run for run in runs if run >= _RUN) > MAX_COLLIDING:
        raise NotPlainData(f"more than {MAX_COLLIDING} values whose hashes collide")


def _distinct(scalars: list[Any], integers: list[int]) -> Iterator[Any]:
    others = {item for item in scalars if type(item) not in (int, bool, complex) and _is_hashable(item)}
    floats = [item for item in others if type(item) is float]
    whole = [int(item) for item in floats if item.is_integer()]
    truths = [int(item) for item in scalars if type(item) is bool]
    numbers = [*integers, *whole, *truths]
    if max(map(abs, numbers), default=0) < _MODULUS:
        yield from set(numbers)
    else:
        yield from (int(digits, 16) for digits in set(map(hex, numbers)))
    yield from (item for item in others if type(item) is not float or not item.is_integer())
    yield from map(complex, {repr(item) for item in scalars if type(item) is complex and item.imag})


def _is_hashable(item: Any) -> bool:
    return type(item).__hash__ is not None


def _check_containers(tuples: list[tuple]) -> None:
    _check_keys(tuples, map(repr, tuples))
    sets = list(map(frozenset, tuples))
    _check_keys(sets, (repr(sorted(map(repr, each))) for each in sets))


def _check_keys(keys: list[Any], texts: Iterable[str]) -> None:
    if len(set(texts)) - len(set(map(hash, keys))) > MAX_COLLIDING:
        raise NotPlainData(f"more than {MAX_COLLIDING} sequences whose hashes collide")


def _frozen(value: Any) -> Any:
    if type(value) in _CONTAINERS:
        return tuple([_frozen(item) for item in value])
    return value if _is_hashable(value) else None
