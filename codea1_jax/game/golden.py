"""The round of the golden method: programs judged by the tests that came with their question, and no Test LLM.

The golden tests stand in the place of the mistake book: a program without suites is rewarded by the share of those
that it passes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from codea1_jax.game.judging import Judgement, PendingJudgement, StatedAnswers
from codea1_jax.game.round import Round, Rules, Table, sample_programs
from codea1_jax.game.scoring import settle
from codea1_jax.game.sharing import gathered, is_mine
from data_pipeline import Problem
from data_pipeline.golden import read_golden_tests
from sandbox import Judge, Test


def play_golden(table: Table, problems: Sequence[Problem], stream: tuple[int, ...], rules: Rules) -> Round:
    """Plays one round over `problems`; no page of the mistake book is read or written.

    Raises SandboxError if the judge fails.
    """
    started = time.perf_counter()
    groups = sample_programs(table, problems, stream, rules)
    sampled = time.perf_counter()

    def judge() -> dict[int, tuple[tuple[Test, ...], Judgement]]:
        mine = [i for i in range(len(problems)) if is_mine(i)]
        golden = golden_tests([problems[i] for i in mine], table.pool)
        pending = [
            (i, tests, PendingJudgement(table.pool, problems[i], groups[i], tests, rules.scoring.judging))
            for i, tests in zip(mine, golden, strict=True)
        ]
        return {i: (tests, judging.result()) for i, tests, judging in pending}

    questions = tuple(
        settle(problems[i], {}, tests, groups[i], judgement, rules.scoring)
        for i, (tests, judgement) in gathered(judge).items()
    )
    seconds = {"generate_code": sampled - started, "judge_wait": time.perf_counter() - sampled}
    return Round(questions, seconds)


def golden_tests(problems: Sequence[Problem], pool: Judge) -> list[tuple[Test, ...]]:
    """Every problem's golden tests with their answers as plain data; those whose answer is none are left out."""
    suites = [read_golden_tests(p) for p in problems]
    answers = [StatedAnswers(pool, [test.stated for test in suite]) for suite in suites]
    values = [asked.result() for asked in answers]
    return [
        tuple(Test(test.call, value) for test in suite if (value := stated[test.stated]) is not None)
        for suite, stated in zip(suites, values, strict=True)
    ]
