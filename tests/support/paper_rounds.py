"""Random rounds of the game, and what the original's rules make of them, written from the method's description alone.

Programs and suites are drawn as what they do and say; their texts follow from that, and so do their rewards. Nothing
here reads, runs or rewards a text: that is what is being tested.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

K, ALPHA, RETRIEVED = 8, 0.5, 8
QUESTIONS, ROUNDS, PROGRAMS, SUITES = 50, 10, 4, 2  # 2,000 programs with two suites each
REFERENCE_RAISES, REFERENCE_HANGS = 13, 17
NEVER = -1

Key = tuple[str, str]  # a test: its call and the value that it must return
Value = int | str  # or how a call ends that returns nothing


@dataclass(frozen=True)
class Question:
    """Asks for f(x) = FACTOR * x + OFFSET, where OFFSET is a constant of the reference's module."""

    number: int
    factor: int
    offset: int

    @property
    def text(self) -> str:
        return f"Question {self.number}: write f(x)."

    @property
    def solution(self) -> str:
        return (
            f"OFFSET = {self.offset}\n\ndef f(x):\n    if x == {REFERENCE_RAISES}:\n        raise ValueError(x)\n"
            f"    while x == {REFERENCE_HANGS}:\n        pass\n    return {self.factor} * x + OFFSET\n"
        )

    def value(self, x: int) -> Value:
        return {REFERENCE_RAISES: "raised", REFERENCE_HANGS: "hung"}.get(x, self.factor * x + self.offset)


@dataclass(frozen=True)
class Program:
    """A candidate, wrong where x % 5 is one of `wrong`. form: how its response gives it, or what breaks it."""

    number: int
    wrong: tuple[int, ...]
    raises_at: int
    hangs_at: int
    form: str

    def response(self, question: Question) -> str:
        offset = "OFFSET" if self.form == "helped" else str(question.offset)
        code = (
            f"def f(x):  # {self.number}\n    if x == {self.raises_at}:\n        raise KeyError(x)\n"
            f"    while x == {self.hangs_at}:\n        pass\n"
            f"    return {question.factor} * x + {offset} + (x % 5 in {self.wrong})\n"
        )
        return {
            "bare": code,
            "unclosed": f"```python\n{code}",
            "unlabelled": f"```\n{code}```",
            "broken": f"```python\n{code}    return (\n```",
            "second": f"```python\n{code}```\nOr:\n```python\ndef f(x): return None\n```",
        }.get(self.form, f"```python\n{code}```")

    @property
    def is_valid(self) -> bool:
        return self.form not in ("unclosed", "unlabelled", "broken")

    def value(self, question: Question, x: int) -> Value:
        if x in (self.raises_at, self.hangs_at):
            return "raised" if x == self.raises_at else "hung"
        return question.factor * x + question.offset + (x % 5 in self.wrong)


@dataclass(frozen=True)
class Line:
    """A line of a suite about f(x), as one of KINDS."""

    kind: str
    x: int
    stated: int

    def call(self, question: Question) -> str:
        return {"respelled": f"f(0 + {self.x})", "constant": f"f({question.offset})"}.get(self.kind, f"f({self.x})")

    @property
    def text(self) -> str:
        return {
            "test": f"assert f({self.x}) == {self.stated}",
            "respelled": f"assert f(0 + {self.x}) == {self.stated}",
            "constant": f"assert f(OFFSET) == {self.stated}",
            "not equal": f"assert f({self.x}) != {self.stated}",
            "greater": f"assert f({self.x}) > {self.stated}",
            "undefined": f"assert f(unknown) == {self.stated}",
            "another": f"assert g({self.x}) == {self.stated}",
            "no call": f"assert {self.x} == {self.stated}",
            "broken": f"assert f(0{self.x + 1}) == {self.stated}",
            "comment": "# é",
        }[self.kind]


KINDS = ("respelled", "constant", "not equal", "greater", "undefined", "another", "no call", "broken", "comment")
PRICED = ("undefined", "another", "no call", "broken")  # outside of the language of tests


@dataclass(frozen=True)
class Suite:
    """Lines in one of the forms of a response."""

    lines: tuple[Line, ...]
    form: str

    @property
    def text(self) -> str:
        lines = [line.text for line in self.lines]
        half = len(lines) // 2
        blocks = ["```python", *lines[:half], "```", "And:", "```python", *lines[half:], "```"]
        return "\n".join({"bare": lines, "unclosed": ["```python", *lines], "two": blocks}[self.form])


@dataclass(frozen=True)
class Round:
    """A question and its candidates, each with its suites."""

    question: Question
    candidates: tuple[tuple[Program, tuple[Suite, ...]], ...]


@dataclass
class Outcome:
    """What a round is worth: by program, whether it is valid, its reward, and (kept, invalid, reward) of every suite;
    and the question's page afterwards, as (call, value, frequency). Rewards have six decimals.
    """

    valid: list[bool] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    suites: list[list[tuple[int, int, float]]] = field(default_factory=list)
    page: list[tuple[str, str, int]] = field(default_factory=list)


def rounds(questions: int = QUESTIONS) -> Iterator[list[Round]]:
    """The rounds of each question."""
    for number in range(questions):
        draw = random.Random(f"paper rounds {number}")
        question = Question(number, draw.randint(1, 4), draw.randint(1, 9))
        yield [_round(draw, question, 100 * turn) for turn in range(ROUNDS)]


def _round(draw: random.Random, question: Question, first: int) -> Round:
    hangs = draw.random() < 0.1  # a round in which the reference may hang
    return Round(
        question,
        tuple(
            (_program(draw, first + i), tuple(_suite(draw, question, hangs=hangs) for _ in range(SUITES)))
            for i in range(PROGRAMS)
        ),
    )


def _program(draw: random.Random, number: int) -> Program:
    forms = ("bare", "labelled", "helped", "second", "unclosed", "unlabelled", "broken")
    return Program(
        number,
        wrong=tuple(sorted(draw.sample(range(5), draw.choice((0, 0, 1, 1, 2))))),
        raises_at=draw.randint(0, 12) if draw.random() < 0.2 else NEVER,
        hangs_at=draw.randint(0, 12) if draw.random() < 0.1 else NEVER,
        form=draw.choices(forms, (6, 6, 3, 1, 1, 1, 1))[0],
    )


def _suite(draw: random.Random, question: Question, *, hangs: bool) -> Suite:
    lines = []
    for _ in range(draw.choice((0, 3, 7, 8, 9, 20))):
        kind = draw.choice(KINDS) if draw.random() < 0.3 else "test"
        x = draw.choice((*range(13), REFERENCE_RAISES, *((REFERENCE_HANGS,) if hangs else ())))
        value = question.value(question.offset if kind == "constant" else x)
        right = draw.random() < 0.8 and isinstance(value, int)
        lines.append(Line(kind, x, int(value) if right else draw.randint(50, 60)))
    return Suite(tuple(lines), draw.choice(("bare", "unclosed", "two", "two")))


def outcomes(played: Sequence[Round]) -> list[Outcome]:
    """What the original's rules make of one question's rounds, one after another."""
    page: dict[Key, int] = {}
    found = []
    for each in played:
        page, outcome = _outcome(each, page)
        found.append(outcome)
    return found


def _outcome(played: Round, page: dict[Key, int]) -> tuple[dict[Key, int], Outcome]:
    page = dict(sorted(page.items(), key=lambda entry: -entry[1]))  # a stable sort: ties by age
    book = list(page)[:RETRIEVED]
    outcome = Outcome()
    passed: list[Key] = []
    failed: list[Key] = []
    for program, suites in played.candidates:
        found = [_validated(played.question, suite) for suite in suites]
        hung = None in found  # the reference, in the one script of all these suites: it costs the program everything
        validated = [([], len(_counted(suite))) for suite in suites] if hung else [own for own in found if own]
        valid = program.is_valid and not hung
        kept, invalid = [own for own, _ in validated], [count for _, count in validated]
        passes = iter(_script(program, played.question, book + [key for own in kept for key in own], valid=valid))
        on_book = [next(passes) for _ in book]
        fails = [[not next(passes) for _ in own] for own in kept]
        outcome.valid.append(valid)
        outcome.rewards.append(round(_code_reward(fails, on_book), 6))
        scores = [
            _suite_reward(own, count, on_book, suite, valid=valid)
            for own, count, suite in zip(fails, invalid, suites, strict=True)
        ]
        outcome.suites.append([(len(o), n, round(score, 6)) for o, n, score in zip(kept, invalid, scores, strict=True)])
        if valid:
            passed += [key for key, did in zip(book, on_book, strict=True) if did]
            failed += [
                key for own, bad in zip(kept, fails, strict=True) for key, did in zip(own, bad, strict=True) if did
            ]
    for key in passed:
        if key in page:
            page[key] -= 1
            if page[key] <= 0:
                del page[key]
    for key in failed:
        page[key] = page.get(key, 0) + 1
    outcome.page = [(call, value, count) for (call, value), count in page.items()]
    return page, outcome


def _counted(suite: Suite) -> list[Line]:
    """The lines that the original counts: comparisons that parse, with a call on the left; all outside of a block."""
    uncounted = ("no call", "broken", "comment") if suite.form == "two" else ("comment",)
    return [line for line in suite.lines if line.kind not in uncounted]


def _validated(question: Question, suite: Suite) -> tuple[list[Key], int] | None:
    """The kept tests and the number of invalid ones; None if the reference hangs."""
    kept: list[Key] = []
    invalid = 0
    for line in _counted(suite):
        value = question.value(question.offset if line.kind == "constant" else line.x)
        if line.kind not in PRICED and value == "hung":
            return None
        key = (line.call(question), str(value))
        if line.kind in PRICED or value == "raised" or key in kept:
            invalid += 1
        else:
            kept.append(key)
            invalid += line.stated != value  # whatever compares them is read as ==
    return kept, invalid


def _script(program: Program, question: Question, tests: Sequence[Key], *, valid: bool) -> Iterator[bool]:
    """Whether each test passes, where the first that hangs takes all that follow with it."""
    hung = not valid
    for call, expected in tests:
        value = program.value(question, int(call.removeprefix("f(").removeprefix("0 + ").removesuffix(")")))
        hung = hung or value == "hung"
        yield not hung and str(value) == expected


def _code_reward(fails: Sequence[Sequence[bool]], on_book: Sequence[bool]) -> float:
    pairs = []
    for own in fails:
        rates = [sum(on_book) / len(on_book)] if on_book else []
        rates += [1 - sum(own) / len(own)] if own else []
        pairs.append(sum(rates) / len(rates) if rates else 0.0)
    return sum(pairs) / len(pairs)


def _suite_reward(fails: Sequence[bool], invalid: int, on_book: Sequence[bool], suite: Suite, *, valid: bool) -> float:
    validity = max(0.0, min(1.0, len(fails) / K, 1 - invalid / K))
    hard = sum(fails[:K]) / K
    book_fails = 1 - sum(on_book) / len(on_book) if on_book else 0.0
    adversarial = ((hard - book_fails + 1) / 2 if on_book else hard) if fails else 0.0
    earned = ALPHA * validity + (1 - ALPHA) * adversarial if valid else 0.0
    return earned - sum(line.kind == "comment" for line in suite.lines) / max(1, len(suite.text))
