"""The round of the golden method: programs judged by the tests that came with their question, and no Test LLM.

The golden tests stand in the place of the mistake book: a program without suites is rewarded by the share of those
that it passes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from codea1_jax.game.judging import Judgement, PendingJudgement, StatedAnswers
from codea1_jax.game.rollouts import StepRollouts
from codea1_jax.game.round import Game, Pending, hidden_judging, sample_programs
from codea1_jax.game.scoring import score_question
from codea1_jax.hosts.agreement import in_thread
from codea1_jax.hosts.gather import gathered, is_mine
from data_pipeline import Problem
from data_pipeline.golden import read_golden_tests
from sandbox import Judge, Test


def begin_golden(game: Game, problems: Sequence[Problem], stream: tuple[int, ...]) -> Pending[StepRollouts]:
    """Samples a round over `problems`, which is judged then; no page of the mistake book is read or written.

    The result raises SandboxError if the judge fails.
    """
    started = time.perf_counter()
    groups = sample_programs(game, problems, stream)
    sampled = time.perf_counter()
    sampling = {"generate_code": sampled - started}

    def judge() -> tuple[dict[int, tuple[tuple[Test, ...], Judgement]], float]:
        mine = [i for i in range(len(problems)) if is_mine(i)]
        golden = golden_tests([problems[i] for i in mine], game.judge)
        pending = [
            (i, tests, PendingJudgement(game.judge, problems[i], groups[i], tests, game.config))
            for i, tests in zip(mine, golden, strict=True)
        ]
        return {i: (tests, judging.result()) for i, tests, judging in pending}, time.perf_counter()

    judging = in_thread(judge, name="judgement")

    def result() -> StepRollouts:
        asked = time.perf_counter()
        judgements = gathered(lambda: judging.result()[0])
        questions = tuple(
            score_question(problems[i], {}, tests, groups[i], judgement, game.config)
            for i, (tests, judgement) in judgements.items()
        )
        scored = time.perf_counter()
        hidden = hidden_judging(sampled, sampled, min(judging.result()[1], asked))
        return StepRollouts(questions, {**sampling, "judge_wait": scored - asked}, hidden)

    return Pending(tuple(groups), sampling, result)


def golden_tests(problems: Sequence[Problem], judge: Judge) -> list[tuple[Test, ...]]:
    """Every problem's golden tests with their answers as plain data; a test whose answer is not is left out."""
    suites = [read_golden_tests(p) for p in problems]
    answers = [StatedAnswers(judge, [test.stated for test in suite]) for suite in suites]
    values = [pending.result() for pending in answers]
    return [
        tuple(
            Test(test.call, value, tolerance=test.tolerance)
            for test in suite
            if (value := stated[test.stated]) is not None
        )
        for suite, stated in zip(suites, values, strict=True)
    ]
