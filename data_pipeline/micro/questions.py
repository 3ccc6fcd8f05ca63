"""Questions in English that ask for a micro program."""

import random

from data_pipeline.micro.forms import Form
from data_pipeline.micro.programs import Between, Branch, Comparison, Condition, Program

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


def ask(program: Program, form: Form, rng: random.Random) -> str:
    """A question whose answer is the program, in one of its phrasings."""
    condition = _phrase(program.condition, rng)
    if isinstance(program, Branch):
        then, otherwise = program.then.code(), program.otherwise.code()
        return f"{form.requests[program.parameters]}{then} if x is {condition}, otherwise {otherwise}."
    reduction = REDUCTIONS[program.reduction]
    return f"{form.requests['xs']}{reduction} of the items that are {condition}, or {program.default} if none."


def _phrase(condition: Condition, rng: random.Random) -> str:
    match condition:
        case Comparison(operator, operand):
            return rng.choice(COMPARISONS[operator]).format(operand)
        case Between(low, low_side, _, high):
            return rng.choice(BETWEEN[low_side]).format(low, high)
        case _:
            return PARITIES[condition.remainder]
