"""One round of the game: sample programs, sample suites, judge them, reward both models.

    problems ──► Code LLM ──► programs ──► Test LLM ──► suites ──► judge ──► rewards, new pages of the book

Judging runs in the sandbox's own processes: a question's jobs are submitted as soon as its last suite is sampled,
while the Test LLM continues with the next questions. What the host does between, such as reading programs and writing
the Test LLM's prompts as soon as a group is complete, it does while the device decodes the next block. The two models'
decoding is not mixed: they share the devices, so a block of one delays a block of the other by all it takes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from codea1_jax.game.judging import PendingJudgement
from codea1_jax.game.mistake_book import retrieved
from codea1_jax.game.parsing import Suite, extract_program, extract_suite
from codea1_jax.game.prompts import Prompts
from codea1_jax.game.records import Candidate, Page, PlayedQuestion, Response
from codea1_jax.game.scoring import Scoring, settle
from codea1_jax.game.sharing import gathered, is_mine
from codea1_jax.rollout import Completion, Request
from data_pipeline import Problem
from sandbox import Judge

# Tests that are read of a suite, for each that was asked for: the prompt says that only the first K count.
TESTS_READ = 2

# A model in one of the two roles: for every request, in any order, its index and its completions.
Speaker = Callable[[Sequence[Request]], Iterator[tuple[int, tuple[Completion, ...]]]]


def nobody(requests: Sequence[Request]) -> Iterator[tuple[int, tuple[Completion, ...]]]:
    """The speaker of a role that nobody plays."""
    raise AssertionError(f"{len(requests)} requests to a role that nobody plays")


@dataclass(frozen=True)
class Table:
    """Those who play: both models, the prompts they get, their tokens' text, and the judge."""

    code: Speaker
    test: Speaker
    prompts: Prompts
    decode: Callable[[Sequence[int]], str]
    pool: Judge


@dataclass(frozen=True)
class Rules:
    """How a round is played.

    samples: n, programs per question. suites: m, suites per program.
    share_programs: identical programs of a question share one set of suites (departure).
    test_prompt_tokens: a program whose test prompt is longer gets no suites.
    white_box: the Test LLM is shown the program under test, else the question alone.
    """

    samples: int
    suites: int
    share_programs: bool
    test_prompt_tokens: int
    scoring: Scoring
    white_box: bool = True


@dataclass(frozen=True)
class Round:
    """The outcome of a round and the seconds its stages took; `judge_wait` is judging that decoding did not hide.

    judge_hidden: the seconds of judging while suites were still being sampled, which no other stage counts.
    """

    questions: tuple[PlayedQuestion, ...]
    seconds: Mapping[str, float]
    judge_hidden: float = 0.0


def play_round(
    table: Table, problems: Sequence[Problem], book: Mapping[str, Page], stream: tuple[int, ...], rules: Rules
) -> Round:
    """Plays one round over `problems`. `book` maps question ids to pages; `stream` makes the sampling reproducible.

    Raises SandboxError if the judge fails: an outage is never a verdict.
    """
    started = time.perf_counter()
    groups: list[tuple[Candidate, ...]] = [()] * len(problems)
    requests: dict[tuple[int, int], Request] = {}
    for i, group in _program_groups(table, problems, stream, rules):
        groups[i] = group
        requests |= _suite_requests(table, problems[i], i, group, stream, rules)
    programs_done = judging_since = time.perf_counter()
    pages = [book.get(problem.id, {}) for problem in problems]
    pending: dict[int, PendingJudgement] = {}
    for i, group in _sample_suites(table, problems, groups, dict(sorted(requests.items())), rules):
        groups[i] = group
        judging_since = judging_since if pending else time.perf_counter()
        if is_mine(i):
            book_tests = retrieved(pages[i])
            pending[i] = PendingJudgement(table.pool, problems[i], group, book_tests, rules.scoring.judging)
    suites_done = time.perf_counter()
    judgements = gathered(lambda: {i: judging.result() for i, judging in pending.items()})
    judged = time.perf_counter()
    questions = tuple(
        settle(problem, pages[i], retrieved(pages[i]), groups[i], judgements[i], rules.scoring)
        for i, problem in enumerate(problems)
    )
    seconds = {
        "generate_code": programs_done - started,
        "generate_tests": suites_done - programs_done,
        "judge_wait": judged - suites_done,
    }
    return Round(questions, seconds, suites_done - judging_since)


def sample_programs(
    table: Table, problems: Sequence[Problem], stream: tuple[int, ...], rules: Rules
) -> list[tuple[Candidate, ...]]:
    """Every problem's group of programs, in the order of sampling, not yet with suites."""
    groups = dict(_program_groups(table, problems, stream, rules))
    return [groups[i] for i in range(len(problems))]


def _program_groups(
    table: Table, problems: Sequence[Problem], stream: tuple[int, ...], rules: Rules
) -> Iterator[tuple[int, tuple[Candidate, ...]]]:
    """Yields a question's index and its group as soon as the last of its programs is there."""
    prompts = [table.prompts.code(p.question, p.entry_point) for p in problems]
    requests = [Request(prompt, (*stream, 0, i), rules.samples) for i, prompt in enumerate(prompts)]
    for i, completions in table.code(requests):
        responses = [Response(prompts[i], c, table.decode(c.tokens)) for c in completions]
        programs = [extract_program(response.text) for response in responses]
        twins = [programs.index(p) if rules.share_programs else k for k, p in enumerate(programs)]
        yield i, tuple(map(Candidate, responses, programs, twins))


def _suite_requests(
    table: Table, problem: Problem, i: int, group: Sequence[Candidate], stream: tuple[int, ...], rules: Rules
) -> dict[tuple[int, int], Request]:
    """What the Test LLM is asked about a question's programs, by question and program."""
    requests = {}
    for k, candidate in enumerate(group):
        if candidate.twin != k:
            continue
        shown = candidate.program if rules.white_box else None
        prompt = table.prompts.test(problem.question, problem.entry_point, shown)
        if len(prompt) <= rules.test_prompt_tokens:
            requests[i, k] = Request(prompt, (*stream, 1, i, k), rules.suites)
    return requests


def _sample_suites(
    table: Table,
    problems: Sequence[Problem],
    groups: Sequence[Sequence[Candidate]],
    requests: Mapping[tuple[int, int], Request],
    rules: Rules,
) -> Iterator[tuple[int, tuple[Candidate, ...]]]:
    """Yields a question's index and its group, now with suites, as soon as the last of its suites is there."""
    pairs = tuple(requests)
    missing = Counter(i for i, _ in pairs)
    written: dict[tuple[int, int], tuple[tuple[Response, Suite], ...]] = {}

    def complete(i: int) -> tuple[int, tuple[Candidate, ...]]:
        return i, tuple(replace(c, suites=written.get((i, c.twin), ())) for c in groups[i])

    yield from (complete(i) for i in range(len(problems)) if not missing[i])
    for index, completions in table.test(tuple(requests.values())):
        i, k = pairs[index]
        responses = [Response(requests[i, k].prompt, c, table.decode(c.tokens)) for c in completions]
        answers, most = rules.scoring.answer_prediction, TESTS_READ * rules.scoring.rewards.suite_size
        entry_point = problems[i].entry_point
        written[i, k] = tuple((r, extract_suite(r.text, entry_point, answers=answers, most=most)) for r in responses)
        missing[i] -= 1
        if not missing[i]:
            yield complete(i)
