"""Questions in English that ask for a micro program."""

import random

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


def ask(program: Program, rng: random.Random) -> str:
    """A question whose answer is the program, in one of its phrasings."""
    condition = _phrase(program.condition, rng)
    if isinstance(program, Branch):
        then, otherwise = program.then.code(), program.otherwise.code()
        return f"Write f({program.parameters}): return {then} if x is {condition}, otherwise {otherwise}."
    reduction = REDUCTIONS[program.reduction]
    items = f"{reduction} of the items that are {condition}"
    return f"Write f(xs): return the {items}, or {program.default} if none."


def _phrase(condition: Condition, rng: random.Random) -> str:
    match condition:
        case Comparison(operator, operand):
            return rng.choice(COMPARISONS[operator]).format(operand)
        case Between(low, low_side, _, high):
            return rng.choice(BETWEEN[low_side]).format(low, high)
        case _:
            return PARITIES[condition.remainder]
