"""The inputs of micro programs: a small domain, and random inputs near a boundary or anywhere."""

import itertools
import random
from collections.abc import Iterator

from data_pipeline.micro.forms import Arguments
from data_pipeline.micro.programs import (
    LETTERS,
    Aggregate,
    Between,
    Branch,
    Comparison,
    Condition,
    Loop,
    Nested,
    Program,
    Text,
    outcome,
)

NUMBERS = range(-9, 10)
ITEMS = range(10)
_PROBED_Y = (-4, 0, 5)
_LENGTHS = (0, 1, 2, 3, 4)
_HARD_X, _HARD_Y = NUMBERS[::3], NUMBERS[::4]
_PROBED_STRINGS = 3  # length up to which all strings are probes
_LONGEST = 5  # of harder programs' lists and strings
_TRIED = 400  # inputs among which one is looked for that tells a program from a bug


def probes(program: Program) -> tuple[Arguments, ...]:
    """Inputs that cover the domain: every number; every x with three ys; lists around every item.

    Of a harder program a coarse grid, and inputs that tell it from its bugs.
    """
    if isinstance(program, (Branch, Aggregate)):
        return grid(program)
    return tuple(dict.fromkeys((*grid(program), *_telling(program))))


def grid(program: Program) -> tuple[Arguments, ...]:
    """Inputs that are the same for all programs of a kind."""
    match program:
        case Branch(parameters="x"):
            return tuple((x,) for x in NUMBERS)
        case Branch():
            return tuple((x, y) for x in NUMBERS for y in _PROBED_Y)
        case Nested():
            return tuple(itertools.product(_HARD_X, _HARD_Y))
        case Text():
            every = (itertools.product(LETTERS, repeat=length) for length in range(_PROBED_STRINGS + 1))
            return tuple(("".join(letters),) for of_length in every for letters in of_length)
        case _:
            singles = [(item,) for item in ITEMS]
            falling_pairs = [(item + 1, item) for item in ITEMS[:-1]]
            repeats = [(item, 9 - item, item) for item in ITEMS]
            return tuple((xs,) for xs in [(), *singles, *falling_pairs, *repeats, tuple(ITEMS), (-3, -2)])


def _telling(program: Program) -> Iterator[Arguments]:
    """For every bug that the grid does not show an input that does, if one is found."""
    rng = random.Random(f"micro probes {program}")
    tried = [draw(program, rng, near_boundary=True) for _ in range(_TRIED)]
    seen = grid(program)
    for bug in (*program.boundary_bugs(), *program.other_bugs()):
        if all(outcome(bug, each) == outcome(program, each) for each in seen):
            yield from itertools.islice((e for e in tried if outcome(bug, e) != outcome(program, e)), 1)


def draw(program: Program, rng: random.Random, near_boundary: bool) -> Arguments:
    """Random arguments for the program; near a boundary of its conditions if asked."""
    match program:
        case Aggregate():
            items = _boundary(program.condition, 0) if near_boundary else tuple(ITEMS)
            return (tuple(rng.choices(items, k=rng.choice(_LENGTHS))),)
        case Loop():
            items = (*_boundary(program.condition, 0), *ITEMS[::3]) if near_boundary else tuple(ITEMS)
            return (tuple(rng.choices(items, k=rng.randint(0, _LONGEST))),)
        case Text():
            return ("".join(rng.choices(LETTERS, k=rng.randint(0, _LONGEST))),)
        case Nested():
            x, y = (
                rng.choice(_boundary(condition, 0) if near_boundary and rng.random() < 0.7 else NUMBERS)
                for condition in (program.of_x, program.of_y)
            )
            return (x, y)
        case Branch():
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
