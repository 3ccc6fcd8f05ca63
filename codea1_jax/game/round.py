"""One round of the game: sample programs, sample suites, judge them, reward both models.

    problems ──► Code LLM ──► programs ──► Test LLM ──► suites ──► judge ──► rewards, new pages of the book

Judging runs in the sandbox's own processes: a question's jobs are submitted as soon as its last suite is sampled,
while the Test LLM continues with the next questions. What the host does between, such as reading programs and writing
the Test LLM's prompts as soon as a group is complete, it does while the device decodes the next block. The two models'
decoding is not mixed: they share the devices, so a block of one delays a block of the other by all it takes.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from codea1_jax.common.activity import report
from codea1_jax.config import Config
from codea1_jax.game.judging import Judgement, book_tests, judge_group
from codea1_jax.game.mistake_book import retrieved
from codea1_jax.game.players import PolicyPlayer, ProgramRequest, SuiteRequest
from codea1_jax.game.prompts import Prompts
from codea1_jax.game.rewards import PAPER_REWARDS, RewardFunctions
from codea1_jax.game.rollouts import Candidate, Page, StepRollouts, WrittenSuite
from codea1_jax.game.scoring import score_question
from codea1_jax.game.suites import MAX_TESTS, SuiteRules
from codea1_jax.runtime.gather import gathered, is_mine
from data_pipeline import Problem
from data_pipeline.imports import constants_of
from sandbox import Judge, in_thread

# Tests that are read of a suite, for each that was asked for: the prompt states that only the first K count.
TESTS_READ = 2


@dataclass(frozen=True)
class Game:
    """The players of both roles (None: not played), the judge, and how they play.

    prompts: what the players are asked by, for a method that learns without asking. rewards: instead of the paper's.
    """

    code: PolicyPlayer | None
    test: PolicyPlayer | None
    judge: Judge
    config: Config
    prompts: Prompts
    rewards: RewardFunctions = PAPER_REWARDS


def play_round(
    game: Game, problems: Sequence[Problem], book: Mapping[str, Page], stream: tuple[int, ...]
) -> StepRollouts:
    """Plays a round over `problems`. `book` maps question ids to pages; `stream` makes the sampling reproducible.

    A program whose test prompt is too long gets no suites. Where nobody plays the Test LLM, none gets any, and golden
    tests stand in the place of the mistake book, of which no page is read or written.

    Raises SandboxError if the judge fails: an outage is never a verdict.
    """
    started = time.perf_counter()
    groups: list[tuple[Candidate, ...]] = [()] * len(problems)
    requests: dict[tuple[int, int], SuiteRequest] = {}
    for i, group in _program_groups(game, problems, stream):
        groups[i] = group
        requests |= _suite_requests(game, problems[i], i, group, stream)
    programs_done = judging_since = time.perf_counter()
    pages: list[Page] = [{} if game.test is None else book.get(problem.id, {}) for problem in problems]
    pending: dict[int, Future[tuple[Judgement, float]]] = {}
    for i, group in _sample_suites(game, groups, dict(sorted(requests.items()))):
        groups[i] = group
        judging_since = judging_since if pending else time.perf_counter()
        if is_mine(i):
            pending[i] = in_thread(partial(_judged, game, problems[i], group, pages[i]), "judgement")
    suites_done = time.perf_counter()
    sampling = {"generate_code": programs_done - started}
    if game.test is not None:
        sampling["generate_tests"] = suites_done - programs_done

    judgements = gathered(lambda: _judgements(pending))
    questions = tuple(
        score_question(problem, pages[i], groups[i], judgements[i], game.config, game.rewards)
        for i, problem in enumerate(problems)
    )
    seconds = {**sampling, "judge_wait": time.perf_counter() - suites_done}
    judging_ended = max((judging.result()[1] for judging in pending.values()), default=judging_since)
    return StepRollouts(questions, seconds, {"judge_hidden": min(suites_done, judging_ended) - judging_since})


def _judged(game: Game, problem: Problem, group: Sequence[Candidate], page: Page) -> tuple[Judgement, float]:
    """A question's judgement, and when its last answer was there."""
    book = book_tests(problem, game.judge) if game.test is None else retrieved(page)
    return judge_group(game.judge, problem, group, book, game.config), time.perf_counter()


def _judgements(pending: Mapping[int, Future[tuple[Judgement, float]]]) -> dict[int, Judgement]:
    found: dict[int, Judgement] = {}
    for i, judging in pending.items():
        report("judging", len(found), len(pending), "questions")
        found[i], _ = judging.result()
    return found


def _program_groups(
    game: Game, problems: Sequence[Problem], stream: tuple[int, ...]
) -> Iterator[tuple[int, tuple[Candidate, ...]]]:
    """Yields a question's index and its group as soon as the last of its programs is there."""
    assert game.code is not None  # a method that plays a round has a Code LLM
    requests = [ProgramRequest(p, game.config.rollout.samples, (*stream, 0, i)) for i, p in enumerate(problems)]
    for i, written in game.code.programs(requests):
        programs = [each.program for each in written]
        shared = game.config.rollout.share_programs
        first = [programs.index(p) if shared else k for k, p in enumerate(programs)]
        yield i, tuple(replace(each, duplicate_of=k) for each, k in zip(written, first, strict=True))


def _suite_requests(
    game: Game, problem: Problem, i: int, group: Sequence[Candidate], stream: tuple[int, ...]
) -> dict[tuple[int, int], SuiteRequest]:
    if game.test is None:
        return {}
    config, rules = game.config, _suite_rules(game.config, problem)
    requests = {}
    for k, candidate in enumerate(group):
        if candidate.duplicate_of != k:
            continue
        shown = candidate.program if config.method.white_box else None
        request = SuiteRequest(problem, shown, config.rollout.suites, (*stream, 1, i, k), rules=rules)
        if game.test.fits(request):
            requests[i, k] = request
    return requests


def _suite_rules(config: Config, problem: Problem) -> SuiteRules:
    junk_counts = config.rewards.junk == "invalid"
    return SuiteRules(
        answers=config.method.answer_prediction,
        most=MAX_TESTS if junk_counts else TESTS_READ * config.rewards.suite_size,
        junk_counts=junk_counts,
        names=constants_of(problem) if config.sandbox.reference_names else {},
    )


def _sample_suites(
    game: Game, groups: Sequence[Sequence[Candidate]], requests: Mapping[tuple[int, int], SuiteRequest]
) -> Iterator[tuple[int, tuple[Candidate, ...]]]:
    """Yields a question's index and its group, now with suites, as soon as the last of its suites is there."""
    pairs = tuple(requests)
    missing = Counter(i for i, _ in pairs)
    written: dict[tuple[int, int], tuple[WrittenSuite, ...]] = {}

    def complete(i: int) -> tuple[int, tuple[Candidate, ...]]:
        return i, tuple(replace(c, suites=written.get((i, c.duplicate_of), ())) for c in groups[i])

    yield from (complete(i) for i in range(len(groups)) if not missing[i])
    for index, suites in game.test.suites(tuple(requests.values())) if game.test is not None else ():
        i, k = pairs[index]
        written[i, k] = suites
        missing[i] -= 1
        if not missing[i]:
            yield complete(i)
