"""What one round of the game leaves behind, from the question down to the single verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from codea1_jax.game.prompts import Prompt
from codea1_jax.game.rewards import SuiteReward
from codea1_jax.game.suites import Suite
from codea1_jax.game.validation import ValidatedSuite
from codea1_jax.learn import Groups
from codea1_jax.rollout import Completion
from data_pipeline import Problem
from sandbox import Test, Verdict

Page = Mapping[Test, int]  # one question's page of the mistake book


@dataclass(frozen=True)
class Response:
    """A response as text and, from a policy, as tokens that answered a prompt's."""

    text: str
    prompt: Prompt = ()
    completion: Completion | None = None


@dataclass(frozen=True)
class WrittenSuite:
    """A response, and the tests in it."""

    response: Response
    suite: Suite


@dataclass(frozen=True)
class Candidate:
    """A response, the program in it, and the suites written against it once they exist.

    duplicate_of: of a question's group, the index of the first candidate with the same program where such share their
    suites, else its own.
    """

    response: Response
    program: str
    duplicate_of: int = 0
    suites: tuple[WrittenSuite, ...] = ()


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
    advantage: float = 0.0
    trained_on: bool = False


@dataclass(frozen=True)
class ProgramRollout:
    """One candidate: its suites, its verdicts on the book's tests, and its reward. duplicate_of: as the candidate's.

    faced: the tests that count for its reward in addition to the book's, per suite, or in one mapping where those of
    siblings count. faced, reward, advantage: unknown until the whole group is judged.
    """

    response: Response
    program: str
    duplicate_of: int
    valid: bool
    book: tuple[Verdict, ...]
    suites: tuple[SuiteRollout, ...]
    faced: tuple[Mapping[Test, Verdict], ...] = ()
    reward: float = 0.0
    advantage: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether it faced a test, and passed all."""
        verdicts = [*chain.from_iterable(tests.values() for tests in self.faced), *self.book]
        return bool(verdicts) and all(verdict.passed for verdict in verdicts)


@dataclass(frozen=True)
class QuestionRollout:
    """One question's group. `retrieved` are the book's tests that its programs faced."""

    problem: Problem
    page_before: Page
    page_after: Page
    retrieved: tuple[Test, ...]
    programs: tuple[ProgramRollout, ...]


@dataclass(frozen=True)
class StepRollouts:
    """What a step has played.

    seconds: that its stages took; `judge_wait` is judging that nothing has hidden, and scoring. hidden: seconds of
    judging while more suites were sampled (`judge_hidden`). groups: what each policy learns from, by its name, in the
    order of update. figures: metrics of how it was sampled (`Counters.goodput`).
    """

    questions: tuple[QuestionRollout, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    hidden: Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[str, Groups] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def pages(self) -> dict[str, Page]:
        return {question.problem.id: question.page_after for question in self.questions}
