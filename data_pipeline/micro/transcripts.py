"""The warm-start corpus: questions, often buggy programs and correct tests, which teach both roles."""

import random
from dataclasses import dataclass, replace

from data_pipeline.micro.forms import FUNCTION, HARD, Form
from data_pipeline.micro.generate import distinct_inputs, programs
from data_pipeline.micro.programs import Between, Comparison, Condition, Program, outcome, without_empty_case
from data_pipeline.micro.questions import ask

TESTS = 3


@dataclass(frozen=True)
class Transcript:
    """A question, a program that may be wrong, and tests as a suite has them, with the true values."""

    question: str
    program: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class WarmStart:
    """How often the corpus errs, and how its test inputs are drawn; all are probabilities.

    Strict comparisons are wrong far less often than inclusive ones. The closer the two rates, the less a model gains
    from telling "at least" from "more than", and a small model does not begin to do so within a short warm start;
    whether reinforcement learning then finds the difference within a run is chance.
    """

    inclusive_bug: float = 0.50
    """`>=` or `<=` written without its equality."""
    strict_bug: float = 0.10
    """`>` or `<` written with an equality."""
    between_bug: float = 0.50
    """a side of a range strict instead of inclusive, or the reverse."""
    empty_case_bug: float = 0.50
    """the default for "none" forgotten."""
    other_bug: float = 0.12
    """a constant off by one, branches swapped, the wrong aggregate."""
    near_boundary: float = 0.40
    """a test input at most 1 away from where the condition changes."""


HARD_RATES = WarmStart(inclusive_bug=0.60, strict_bug=0.20, between_bug=0.60, other_bug=0.35)
"""More bugs, which leave about 3 of 10 programs right, so that there is much to learn and much to find."""


def warm_start(count: int, seed: int, rates: WarmStart | None = None, form: Form = FUNCTION) -> tuple[Transcript, ...]:
    """`count` transcripts over train-split programs, the same for the same seed and rates; none: those of the form."""
    rates = rates or (HARD_RATES if form is HARD else WarmStart())
    rng = random.Random(f"micro warm start {seed}")
    source = programs("train", rng, form)
    return tuple(_transcript(next(source), rates, form, rng) for _ in range(count))


def _transcript(program: Program, rates: WarmStart, form: Form, rng: random.Random) -> Transcript:
    arguments = distinct_inputs(program, TESTS, rates.near_boundary, rng)
    return Transcript(
        question=ask(program, form, rng),
        program=_with_bugs(program, rates, rng).code(form),
        tests=tuple(form.spelled(form.given(each), str(outcome(program, each))) for each in arguments),
    )


def _with_bugs(program: Program, rates: WarmStart, rng: random.Random) -> Program:
    for name, condition in program.conditions.items():
        if rng.random() < _boundary_rate(condition, rates):
            program = replace(program, **{name: rng.choice(condition.boundary_bugs())})
    if rng.random() < rates.empty_case_bug:
        program = without_empty_case(program)
    if rng.random() < rates.other_bug:
        program = rng.choice(tuple(program.other_bugs()))
    return program


def _boundary_rate(condition: Condition, rates: WarmStart) -> float:
    match condition:
        case Comparison(operator=(">=" | "<=")):
            return rates.inclusive_bug
        case Comparison():
            return rates.strict_bug
        case Between():
            return rates.between_bug
        case _:
            return 0.0
