"""The micro world's programs: their meaning, their Python code, and their bugs.

A `Branch` is `f(x)` or `f(x, y)`: one term if x meets a condition, otherwise another. An `Aggregate` is
`f(xs)`: the sum, count, largest or smallest of the items that meet a condition, or a default if none does.
"""

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

from data_pipeline.micro.forms import Arguments, Form

_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_OTHER_SIDE_OF_BOUNDARY = {">": ">=", ">=": ">", "<": "<=", "<=": "<"}
_REDUCE = {"sum": sum, "len": len, "max": max, "min": min}

Inclusion = Literal["<", "<="]


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
class Branch:
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

    def boundary_bugs(self) -> "Iterator[Branch]":
        yield from (replace(self, condition=bug) for bug in self.condition.boundary_bugs())

    def other_bugs(self) -> "Iterator[Branch]":
        yield replace(self, then=self.otherwise, otherwise=self.then)
        for condition in self.condition.other_bugs():
            yield replace(self, condition=condition)
        for then, otherwise in zip(self.then.bugs(), self.otherwise.bugs(), strict=True):
            yield replace(self, then=then)
            yield replace(self, otherwise=otherwise)


@dataclass(frozen=True)
class Aggregate:
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

    def boundary_bugs(self) -> "Iterator[Aggregate]":
        yield from (replace(self, condition=bug) for bug in self.condition.boundary_bugs())

    def other_bugs(self) -> "Iterator[Aggregate]":
        for reduction in ("sum", "len", "max", "min"):
            if reduction != self.reduction:
                yield replace(self, reduction=reduction)
        for condition in self.condition.other_bugs():
            yield replace(self, condition=condition)
        if self.default is not None:
            yield replace(self, default=self.default + 1)


class Program(Protocol):
    """A micro program of any kind, a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def value(self) -> Callable[..., int]:
        """What it returns for arguments. Raises ValueError for the largest or smallest of nothing."""
        ...

    def code(self, form: Form) -> str:
        """Its text in Python."""
        ...

    def boundary_bugs(self) -> "Iterable[Program]":
        """The program with a condition strict where it should be inclusive, or the reverse."""
        ...

    def other_bugs(self) -> "Iterable[Program]":
        """The program with another small mistake."""
        ...


def without_empty_case(program: Program) -> Program:
    """An aggregate without its default; another program unchanged."""
    return replace(program, default=None) if isinstance(program, Aggregate) else program


def outcome(program: Program, arguments: Arguments) -> int | str:
    """The program's value on these arguments, or "ValueError"."""
    try:
        return program.value(*arguments)
    except ValueError:
        return "ValueError"
