"""The micro world's programs: their meaning, their Python code, and their bugs.

A `Branch` is `f(x)` or `f(x, y)`: one term if x meets a condition, otherwise another. An `Aggregate` is
`f(xs)`: the sum, count, largest or smallest of the items that meet a condition, or a default if none does.

The harder programs have two conditions, a loop or a string. A `Nested` is `f(x, y)`: two conditions in turn and three
results. A `Loop` is `f(xs)`: it adds items that meet a condition, and stops once its total meets another. A `Text` is
`f(s)`: it counts a letter, and its result depends on the count or on the length. Many of their bugs show only where two
conditions meet.

Every program has its `value`, what it returns for arguments (ValueError for the largest or smallest of nothing), its
`code`, `boundary_bugs` (a condition strict where it should be inclusive, or the reverse) and `other_bugs`, each another
small mistake.
"""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from data_pipeline.micro.forms import Arguments, Form

_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_OTHER_SIDE_OF_BOUNDARY = {">": ">=", ">=": ">", "<": "<=", "<=": "<"}
_REDUCE = {"sum": sum, "len": len, "max": max, "min": min}

Inclusion = Literal["<", "<="]
LETTERS = "ab"
Letter = Literal["a", "b"]


@dataclass(frozen=True)
class Comparison:
    """`x OPERATOR operand`, where the operand is a number or the argument y."""

    operator: str
    operand: int | Literal["y"]

    def code(self, subject: str = "x") -> str:
        return f"{subject} {self.operator} {self.operand}"

    def holds(self, x: int, y: int = 0) -> bool:
        return _COMPARE[self.operator](x, y if self.operand == "y" else self.operand)

    def boundary_bugs(self) -> "tuple[Condition, ...]":
        return (replace(self, operator=_OTHER_SIDE_OF_BOUNDARY[self.operator]),)

    def other_bugs(self) -> "tuple[Condition, ...]":
        if self.operand == "y":
            return ()
        return (replace(self, operand=self.operand + 1), replace(self, operand=self.operand - 1))


@dataclass(frozen=True)
class Between:
    """`low < x < high`, each side strict or inclusive."""

    low: int
    low_side: Inclusion
    high_side: Inclusion
    high: int

    def code(self, subject: str = "x") -> str:
        return f"{self.low} {self.low_side} {subject} {self.high_side} {self.high}"

    def holds(self, x: int, y: int = 0) -> bool:
        return _COMPARE[self.low_side](self.low, x) and _COMPARE[self.high_side](x, self.high)

    def boundary_bugs(self) -> "tuple[Condition, ...]":
        sides: tuple[Inclusion, ...] = ("<", "<=")
        variants = (replace(self, low_side=low, high_side=high) for low in sides for high in sides)
        return tuple(variant for variant in variants if variant != self)

    def other_bugs(self) -> "tuple[Condition, ...]":
        return (replace(self, low=self.low - 1), replace(self, high=self.high + 1))


@dataclass(frozen=True)
class Parity:
    """`x % 2 == remainder`."""

    remainder: int

    def code(self, subject: str = "x") -> str:
        return f"{subject} % 2 == {self.remainder}"

    def holds(self, x: int, y: int = 0) -> bool:
        return x % 2 == self.remainder

    def boundary_bugs(self) -> "tuple[Condition, ...]":
        return ()

    def other_bugs(self) -> "tuple[Condition, ...]":
        return (Parity(1 - self.remainder),)


Condition = Comparison | Between | Parity


@dataclass(frozen=True)
class Term:
    """A number, an argument, or an argument plus or minus a number."""

    variable: Literal["", "x", "y"]
    offset: int = 0

    def code(self) -> str:
        if not self.variable:
            return str(self.offset)
        if not self.offset:
            return self.variable
        return f"{self.variable} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"

    def value(self, x: int, y: int = 0) -> int:
        return {"": 0, "x": x, "y": y}[self.variable] + self.offset

    def bugs(self) -> "tuple[Term, ...]":
        return (replace(self, offset=self.offset + 1), replace(self, offset=self.offset - 1))


@dataclass(frozen=True)
class _Program:
    @property
    def conditions(self) -> dict[str, Condition]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Condition)}

    def boundary_bugs(self) -> "Iterator[Self]":
        for name, condition in self.conditions.items():
            yield from (replace(self, **{name: bug}) for bug in condition.boundary_bugs())

    def wrong_conditions(self) -> "Iterator[Self]":
        for name, condition in self.conditions.items():
            yield from (replace(self, **{name: bug}) for bug in condition.other_bugs())


@dataclass(frozen=True)
class Branch(_Program):
    """`f(x)` or `f(x, y)`: `then` if x meets the condition, else `otherwise`."""

    parameters: Literal["x", "x, y"]
    condition: Condition
    then: Term
    otherwise: Term

    def code(self, form: Form) -> str:
        choice = f"{self.then.code()} if {self.condition.code()} else {self.otherwise.code()}"
        return f"{form.openings[self.parameters]}{choice}{form.end}"

    def value(self, *arguments: int) -> int:
        return (self.then if self.condition.holds(*arguments) else self.otherwise).value(*arguments)

    def other_bugs(self) -> "Iterator[Branch]":
        yield from _wrong_choices(self)


@dataclass(frozen=True)
class Aggregate(_Program):
    """`f(xs)`: sum, len, max or min of the items that meet the condition; `default` if none does.

    Without a default (the forgotten empty case) the largest or smallest of nothing raises ValueError.
    """

    reduction: Literal["sum", "len", "max", "min"]
    condition: Condition
    default: int | None

    def code(self, form: Form) -> str:
        empty_case = "" if self.default is None else f" if s else {self.default}"
        return f"{form.openings['xs']}{self.condition.code()}{form.kept}{self.reduction}(s){empty_case}{form.end}"

    def value(self, xs: tuple[int, ...]) -> int:
        kept = [x for x in xs if self.condition.holds(x)]
        if not kept and self.default is not None:
            return self.default
        return _REDUCE[self.reduction](kept)

    def other_bugs(self) -> "Iterator[Aggregate]":
        for reduction in ("sum", "len", "max", "min"):
            if reduction != self.reduction:
                yield replace(self, reduction=reduction)
        yield from self.wrong_conditions()
        if self.default is not None:
            yield replace(self, default=self.default + 1)


@dataclass(frozen=True)
class Nested(_Program):
    """`f(x, y)`: `first` if x meets a condition, else `second` if y meets one, else `third`.

    y_first: the bug that y is looked at before x.
    """

    of_x: Condition
    of_y: Condition
    first: Term
    second: Term
    third: Term
    y_first: bool = False

    def code(self, form: Form) -> str:
        cases = [
            f"{self.of_x.code()}:\n        return {self.first.code()}\n    ",
            f"{self.of_y.code('y')}:\n        return {self.second.code()}\n    ",
        ]
        opening, chosen = form.openings["x, y"], "if ".join(reversed(cases) if self.y_first else cases)
        return f"{opening}{chosen}return {self.third.code()}"

    def value(self, x: int, y: int) -> int:
        cases = [(self.of_x.holds(x), self.first), (self.of_y.holds(y), self.second)]
        met = [term for holds, term in (reversed(cases) if self.y_first else cases) if holds]
        return (met[0] if met else self.third).value(x, y)

    def other_bugs(self) -> "Iterator[Nested]":
        yield replace(self, y_first=True)
        yield replace(self, second=self.third, third=self.second)
        yield replace(self, first=self.second, second=self.first)
        yield from self.wrong_conditions()
        yield from (replace(self, second=bug) for bug in self.second.bugs())


@dataclass(frozen=True)
class Loop(_Program):
    """`f(xs)`: from `start`, adds every item that meets the condition, or 1 for it, until the total meets `stop`.

    stop: None for the bug that it does not stop.
    """

    start: int
    adds: Literal["x", "1"]
    condition: Condition
    stop: Comparison | None

    def code(self, form: Form) -> str:
        stops = "" if self.stop is None else f"        if {self.stop.code('t')}:\n            break\n"
        adding = f"        if {self.condition.code()}:\n            t += {self.adds}\n"
        return f"{form.openings['xs']}{self.start}\n    for x in xs:\n{adding}{stops}    return t"

    def value(self, xs: tuple[int, ...]) -> int:
        total = self.start
        for x in xs:
            if self.condition.holds(x):
                total += x if self.adds == "x" else 1
            if self.stop is not None and self.stop.holds(total):
                break
        return total

    def other_bugs(self) -> "Iterator[Loop]":
        yield replace(self, stop=None)
        yield replace(self, adds="1" if self.adds == "x" else "x")
        yield replace(self, start=self.start + 1)
        yield from self.wrong_conditions()


@dataclass(frozen=True)
class Text(_Program):
    """`f(s)`: `then` if the number n of a letter, or the length of s, meets a condition, else `otherwise`.

    In its terms x is n, and y is the length.
    """

    letter: Letter
    subject: Literal["n", "len(s)"]
    condition: Condition
    then: Term
    otherwise: Term

    def code(self, form: Form) -> str:
        then, otherwise = in_text(self.then), in_text(self.otherwise)
        counting = f'{form.openings["s"]}{self.letter}")\n'
        return f"{counting}    if {self.condition.code(self.subject)}:\n        return {then}\n    return {otherwise}"

    def value(self, s: str) -> int:
        n, length = s.count(self.letter), len(s)
        chosen = self.then if self.condition.holds(n if self.subject == "n" else length) else self.otherwise
        return chosen.value(n, length)

    def other_bugs(self) -> "Iterator[Text]":
        yield replace(self, subject="n" if self.subject == "len(s)" else "len(s)")
        yield replace(self, letter="a" if self.letter == "b" else "b")
        yield from _wrong_choices(self)


def in_text(term: Term) -> str:
    """A term of a `Text`, as its program has it."""
    return term.code().replace("x", "n").replace("y", "len(s)")


def _wrong_choices(program: Branch | Text) -> Iterator[Any]:
    yield replace(program, then=program.otherwise, otherwise=program.then)
    yield from program.wrong_conditions()
    for then, otherwise in zip(program.then.bugs(), program.otherwise.bugs(), strict=True):
        yield replace(program, then=then)
        yield replace(program, otherwise=otherwise)


Program = Branch | Aggregate | Nested | Loop | Text


def without_empty_case(program: Program) -> Program:
    """An aggregate without its default; another program unchanged."""
    return replace(program, default=None) if isinstance(program, Aggregate) else program


def outcome(program: Program, arguments: Arguments) -> int | str:
    """The program's value on these arguments, or "ValueError"."""
    value: Callable[..., int] = program.value
    try:
        return value(*arguments)
    except ValueError:
        return "ValueError"
