"""The harder programs of the micro world, which have two conditions, a loop or a string.

A `Nested` is `f(x, y)`: two conditions in turn and three results. A `Loop` is `f(xs)`: it adds items that meet a
condition, and stops once its total meets another. A `Text` is `f(s)`: it counts a letter, and its result depends on the
count or on the length. Many of their bugs show only where two conditions meet.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from data_pipeline.micro.forms import Form
from data_pipeline.micro.programs import Comparison, Condition, Term

LETTERS = "ab"
Letter = Literal["a", "b"]


@dataclass(frozen=True)
class Nested:
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

    def boundary_bugs(self) -> "Iterator[Nested]":
        yield from (replace(self, of_x=bug) for bug in self.of_x.boundary_bugs())
        yield from (replace(self, of_y=bug) for bug in self.of_y.boundary_bugs())

    def other_bugs(self) -> "Iterator[Nested]":
        yield replace(self, y_first=True)
        yield replace(self, second=self.third, third=self.second)
        yield replace(self, first=self.second, second=self.first)
        yield from (replace(self, of_x=bug) for bug in self.of_x.other_bugs())
        yield from (replace(self, of_y=bug) for bug in self.of_y.other_bugs())
        yield from (replace(self, second=bug) for bug in self.second.bugs())


@dataclass(frozen=True)
class Loop:
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

    def boundary_bugs(self) -> "Iterator[Loop]":
        yield from (replace(self, condition=bug) for bug in self.condition.boundary_bugs())
        if self.stop is not None:
            yield from (replace(self, stop=bug) for bug in self.stop.boundary_bugs())

    def other_bugs(self) -> "Iterator[Loop]":
        yield replace(self, stop=None)
        yield replace(self, adds="1" if self.adds == "x" else "x")
        yield replace(self, start=self.start + 1)
        yield from (replace(self, condition=bug) for bug in self.condition.other_bugs())
        if self.stop is not None:
            yield from (replace(self, stop=bug) for bug in self.stop.other_bugs())


@dataclass(frozen=True)
class Text:
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

    def boundary_bugs(self) -> "Iterator[Text]":
        yield from (replace(self, condition=bug) for bug in self.condition.boundary_bugs())

    def other_bugs(self) -> "Iterator[Text]":
        yield replace(self, subject="n" if self.subject == "len(s)" else "len(s)")
        yield replace(self, letter="a" if self.letter == "b" else "b")
        yield replace(self, then=self.otherwise, otherwise=self.then)
        yield from (replace(self, condition=bug) for bug in self.condition.other_bugs())
        for then, otherwise in zip(self.then.bugs(), self.otherwise.bugs(), strict=True):
            yield replace(self, then=then)
            yield replace(self, otherwise=otherwise)


def in_text(term: Term) -> str:
    """A term of a `Text`, as its program has it."""
    return term.code().replace("x", "n").replace("y", "len(s)")
