"""Questions in English that ask for a micro program."""

import random

from data_pipeline.micro.forms import Form
from data_pipeline.micro.programs import (
    Aggregate,
    Between,
    Branch,
    Comparison,
    Condition,
    Loop,
    Nested,
    Program,
    Text,
    in_text,
)

COMPARISONS = {
    ">": ("greater than {}", "more than {}", "above {}"),
    ">=": ("at least {}", "{} or more", "no less than {}"),
    "<": ("less than {}", "smaller than {}", "below {}"),
    "<=": ("at most {}", "{} or less", "no more than {}"),
}
BETWEEN = {
    "<=": ("between {} and {} inclusive", "from {} to {}"),
    "<": ("between {} and {} exclusive", "strictly between {} and {}"),
}
PARITIES = ("even", "odd")
REDUCTIONS = {"sum": "sum", "len": "number", "max": "largest", "min": "smallest"}
ADDED = {"x": "each item", "1": "1 for each item"}
SUBJECTS = {"n": "n", "len(s)": "the length"}


def ask(program: Program, form: Form, rng: random.Random) -> str:
    """A question whose answer is the program, in one of its phrasings."""
    match program:
        case Branch():
            then, otherwise = program.then.code(), program.otherwise.code()
            condition = _phrase(program.condition, rng)
            return f"{form.requests[program.parameters]}{then} if x is {condition}, otherwise {otherwise}."
        case Aggregate():
            reduction, condition = REDUCTIONS[program.reduction], _phrase(program.condition, rng)
            return f"{form.requests['xs']}{reduction} of the items that are {condition}, or {program.default} if none."
        case Nested():
            first, second, third = (term.code() for term in (program.first, program.second, program.third))
            of_x, of_y = _phrase(program.of_x, rng), _phrase(program.of_y, rng)
            return f"{form.requests['x, y']}{first} if x is {of_x}, {second} if y is {of_y}, otherwise {third}."
        case Loop():
            assert program.stop is not None  # only a bug does not stop
            added, condition = ADDED[program.adds], _phrase(program.condition, rng)
            start = f"{form.requests['xs']}{program.start}"
            return f"{start}, add {added} that is {condition}, stop if the total is {_phrase(program.stop, rng)}."
        case Text():
            then, otherwise = in_text(program.then), in_text(program.otherwise)
            subject, condition = SUBJECTS[program.subject], _phrase(program.condition, rng)
            counted = f"{form.requests['s']}{program.letter}"
            return f"{counted}: return {then} if {subject} is {condition}, otherwise {otherwise}."


def _phrase(condition: Condition, rng: random.Random) -> str:
    match condition:
        case Comparison(operator, operand):
            return rng.choice(COMPARISONS[operator]).format(operand)
        case Between(low, low_side, _, high):
            return rng.choice(BETWEEN[low_side]).format(low, high)
        case _:
            return PARITIES[condition.remainder]
