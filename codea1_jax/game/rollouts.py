"""What one round of the game leaves behind, from the question down to the single verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codea1_jax.game.parsing import Suite
from codea1_jax.game.players import Response
from codea1_jax.game.rewards import SuiteReward
from codea1_jax.game.validation import ValidatedSuite
from data_pipeline import Problem
from sandbox import Test, Verdict

Page = Mapping[Test, int]  # one question's page of the mistake book


@dataclass(frozen=True)
class Candidate:
    """A sampled program, and the suites written against it once they exist.

    duplicate_of: the index of the first candidate with the same program where such share their suites, else its own.
    """

    response: Response
    program: str
    duplicate_of: int
    suites: tuple[tuple[Response, Suite], ...] = ()


@dataclass(frozen=True)
class SuiteRollout:
    """One suite against one program. `verdicts[k]` is the program's on `validated.kept[k]`.

    trained_on: whether the Test LLM learns from it.
    """

    response: Response
    suite: Suite
    validated: ValidatedSuite
    verdicts: tuple[Verdict, ...]
    reward: SuiteReward
    advantage: float
    trained_on: bool


@dataclass(frozen=True)
class ProgramRollout:
    """One candidate: its suites, its verdicts on the book's tests, and its reward. duplicate_of: as the candidate's."""

    response: Response
    program: str
    duplicate_of: int
    valid: bool
    book: tuple[Verdict, ...]
    suites: tuple[SuiteRollout, ...]
    reward: float
    advantage: float


@dataclass(frozen=True)
class QuestionRollout:
    """One question's group. `retrieved` are the book's tests that its programs faced."""

    problem: Problem
    page_before: Page
    page_after: Page
    retrieved: tuple[Test, ...]
    programs: tuple[ProgramRollout, ...]
