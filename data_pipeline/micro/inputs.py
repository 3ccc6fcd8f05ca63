"""The inputs of micro programs: a small domain, and random inputs near a boundary or anywhere."""

import random

from data_pipeline.micro.forms import Arguments
from data_pipeline.micro.programs import Aggregate, Between, Comparison, Condition, Program

NUMBERS = range(-9, 10)
ITEMS = range(10)
_PROBED_Y = (-4, 0, 5)
_LENGTHS = (0, 1, 2, 3, 4)


def probes(program: Program) -> tuple[Arguments, ...]:
    """Inputs that cover the domain: every number; every x with three ys; lists around every item."""
    if isinstance(program, Aggregate):
        singles = [(item,) for item in ITEMS]
        falling_pairs = [(item + 1, item) for item in ITEMS[:-1]]
        repeats = [(item, 9 - item, item) for item in ITEMS]
        return tuple((xs,) for xs in [(), *singles, *falling_pairs, *repeats, tuple(ITEMS), (-3, -2)])
    if program.parameters == "x":
        return tuple((x,) for x in NUMBERS)
    return tuple((x, y) for x in NUMBERS for y in _PROBED_Y)


def draw(program: Program, rng: random.Random, near_boundary: bool) -> Arguments:
    """Random arguments for the program; near a boundary of its condition if asked."""
    if isinstance(program, Aggregate):
        items = _boundary(program.condition, 0) if near_boundary else tuple(ITEMS)
        return (tuple(rng.choices(items, k=rng.choice(_LENGTHS))),)
    y = rng.choice(NUMBERS)
    x = rng.choice(_boundary(program.condition, y) if near_boundary else NUMBERS)
    return (x,) if program.parameters == "x" else (x, y)


def _boundary(condition: Condition, y: int) -> tuple[int, ...]:
    """The numbers at most 1 away from where the condition changes; 0, 1 and 2 for a parity."""
    match condition:
        case Comparison(operand=operand):
            edges = (y if operand == "y" else operand,)
        case Between(low=low, high=high):
            edges = (low, high)
        case _:
            edges = (1,)
    return tuple(edge + step for edge in edges for step in (-1, 0, 1))
