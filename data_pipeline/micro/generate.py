"""Random micro programs, divided into a train and a held-out split, and the problems made from them."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from typing import Literal

from data_pipeline.micro import inputs
from data_pipeline.micro.forms import FUNCTION, HARD, Arguments, Form
from data_pipeline.micro.programs import (
    Aggregate,
    Between,
    Branch,
    Comparison,
    Condition,
    Loop,
    Nested,
    Parity,
    Program,
    Term,
    Text,
    outcome,
    without_empty_case,
)
from data_pipeline.micro.questions import ask
from data_pipeline.problem import Problem
from sandbox import Task

Split = Literal["train", "heldout"]
GOLDEN_TESTS = 4
MAX_MUTANTS = 8
MAX_COUNT = 10_000
_HELD_OUT_IN_1000 = 150
_CONSTANTS = range(-5, 6)
_ITEM_THRESHOLDS = range(1, 9)


def problems(split: Split, count: int, seed: int, form: Form = FUNCTION) -> tuple[Problem, ...]:
    """`count` problems of a split, no two with the same program, the same for the same seed.

    Raises ValueError for more than 10,000 (each split has far more programs).
    """
    if not 0 <= count <= MAX_COUNT:
        raise ValueError(f"the micro world gives 0 to {MAX_COUNT} problems, not {count}")
    rng = random.Random(f"micro {split} {seed}")
    source = programs(split, rng, form)
    found: dict[Program, Problem] = {}
    while len(found) < count:
        program = next(source)
        if program not in found:
            found[program] = _problem(program, form, rng)
    return tuple(found.values())


def programs(split: Split, rng: random.Random, form: Form = FUNCTION) -> Iterator[Program]:
    """Endless random programs of one split, with repeats."""
    while True:
        program = _draw_program(form, rng)
        if split_of(program) == split:
            yield program


def split_of(program: Program) -> Split:
    """The split, by a hash of the program's values on the grid of its kind.

    Equivalent programs that are written differently, such as `x > 2` and `x >= 3`, are always in the same split.
    """
    digest = hashlib.sha256(repr(_behaviour(program, inputs.grid(program))).encode()).digest()
    return "heldout" if int.from_bytes(digest[:8]) % 1000 < _HELD_OUT_IN_1000 else "train"


def distinct_inputs(program: Program, count: int, near_boundary: float, rng: random.Random) -> list[Arguments]:
    """`count` different arguments, each near a boundary with the given probability."""
    drawn: dict[Arguments, None] = {}
    while len(drawn) < count:
        drawn[inputs.draw(program, rng, rng.random() < near_boundary)] = None
    return list(drawn)


def mutants(program: Program) -> tuple[Program, ...]:
    """At most 8 wrong programs, in a fixed order, which the probes distinguish from the program and from each other."""
    probes = inputs.probes(program)
    seen = {_behaviour(program, probes)}
    distinct = []
    for mutant in (*program.boundary_bugs(), without_empty_case(program), *program.other_bugs()):
        behaviour = _behaviour(mutant, probes)
        if behaviour not in seen:
            seen.add(behaviour)
            distinct.append(mutant)
    return tuple(distinct[:MAX_MUTANTS])


def _problem(program: Program, form: Form, rng: random.Random) -> Problem:
    question, code = ask(program, form, rng), program.code(form)
    golden = distinct_inputs(program, GOLDEN_TESTS, 0.0, rng)
    digest = hashlib.sha256(f"{question}\n{code}".encode()).hexdigest()
    return Problem(
        id=f"micro/{digest[:12]}",
        question=question,
        solution=code,
        entry_point="f" if form.task is Task.FUNCTION else "",
        golden_tests=tuple(form.golden_line(form.given(each), str(outcome(program, each))) for each in golden),
        probe_calls=tuple(form.given(arguments) for arguments in inputs.probes(program)),
        mutants=tuple(mutant.code(form) for mutant in mutants(program)),
        source="micro",
        task=form.task,
    )


def _behaviour(program: Program, probes: Sequence[Arguments]) -> tuple[int | str, ...]:
    return tuple(outcome(program, arguments) for arguments in probes)


def _draw_program(form: Form, rng: random.Random) -> Program:
    if form is HARD:
        return rng.choice((_draw_nested, _draw_loop, _draw_text))(rng)
    family = rng.choice(("x", "x, y", "xs"))
    return _draw_aggregate(rng) if family == "xs" else _draw_branch(family, rng)


def _draw_nested(rng: random.Random) -> Nested:
    """Both conditions are met by some and missed by some, and three terms differ."""
    first, second, third = (_draw_term("x, y", rng) for _ in range(3))
    if len({first, second, third}) < 3:
        return _draw_nested(rng)
    of_x, of_y = (_draw_condition(_CONSTANTS, False, rng) for _ in range(2))
    return Nested(of_x, of_y, first, second, third)


def _draw_loop(rng: random.Random) -> Loop:
    adds = rng.choice(("x", "1"))
    stop = Comparison(rng.choice((">", ">=")), rng.randint(5, 12) if adds == "x" else rng.randint(1, 3))
    start = rng.choice((0, 1, 2)) if adds == "x" else 0
    return Loop(start, adds, _draw_condition(_ITEM_THRESHOLDS, False, rng), stop)


def _draw_text(rng: random.Random) -> Text:
    subject, letter = rng.choice(("n", "len(s)")), rng.choice(("a", "b"))
    condition = Comparison(rng.choice((">", ">=", "<", "<=")), rng.randint(1, 3))
    then, otherwise = (_draw_term("x, y", rng) for _ in range(2))
    return _draw_text(rng) if then == otherwise else Text(letter, subject, condition, then, otherwise)


def _draw_aggregate(rng: random.Random) -> Aggregate:
    reduction = rng.choice(("sum", "len", "max", "min"))
    # A default of 0 is what an empty sum or count gives anyway: nothing to forget.
    default = rng.choice((-3, -2, -1, 1, 2, 3) if reduction in ("sum", "len") else range(-3, 4))
    return Aggregate(reduction, _draw_condition(_ITEM_THRESHOLDS, False, rng), default)


def _draw_branch(parameters: Literal["x", "x, y"], rng: random.Random) -> Branch:
    """A branch whose two terms differ and, in `f(x, y)`, one that looks at y."""
    while True:
        condition = _draw_condition(_CONSTANTS, parameters == "x, y", rng)
        then, otherwise = _draw_term(parameters, rng), _draw_term(parameters, rng)
        branch = Branch(parameters, condition, then, otherwise)
        uses_y = "y" in (then.variable, otherwise.variable, getattr(condition, "operand", None))
        if then != otherwise and (parameters == "x" or uses_y):
            return branch


def _draw_condition(thresholds: range, may_use_y: bool, rng: random.Random) -> Condition:
    kind = rng.choices(("comparison", "between", "parity"), weights=(6, 2, 2))[0]
    if kind == "comparison":
        operand = "y" if may_use_y and rng.random() < 0.5 else rng.choice(thresholds)
        return Comparison(rng.choice((">", ">=", "<", "<=")), operand)
    if kind == "between":
        low = rng.choice(thresholds[:-2])
        side = rng.choice(("<", "<="))
        return Between(low, side, side, rng.randint(low + 2, min(low + 5, thresholds[-1])))
    return Parity(rng.randint(0, 1))


def _draw_term(parameters: Literal["x", "x, y"], rng: random.Random) -> Term:
    kind = rng.choice(("argument", "constant", "shifted"))
    if kind == "constant":
        return Term("", rng.choice(_CONSTANTS))
    if kind == "shifted":
        return Term("x", rng.choice((-3, -2, -1, 1, 2, 3)))
    return Term("x" if parameters == "x" else rng.choice(("x", "y")))
