"""A question's group whose programs and suites are given as texts: judged and rewarded as in training."""

from collections.abc import Sequence

from game_config import game_config

from codea1_jax.config import RewardConfig
from codea1_jax.game.judging import judge_group
from codea1_jax.game.rollouts import Candidate, QuestionRollout, Response, WrittenSuite
from codea1_jax.game.scoring import score_question
from codea1_jax.game.suites import SuiteRules, extract_suite
from data_pipeline import Problem
from sandbox import SandboxPool, Test

RIGHT = "def f(x, y=0):\n    return [x + y, x]"
PROBLEM = Problem("p", "def f(x, y=0): ...", RIGHT, "f", ())


def played(
    pool: SandboxPool,
    programs: Sequence[str],
    suites: Sequence[Sequence[str]],
    problem: Problem = PROBLEM,
    book: Sequence[Test] = (),
    **rewards: bool | str | float,
) -> QuestionRollout:
    """The group after judging: each program with its suites' texts; `rewards` differ from the defaults."""
    rules = SuiteRules(most=16)
    group = [
        Candidate(
            Response(program),
            program,
            i,
            tuple(WrittenSuite(Response(t), extract_suite(t, problem.entry_point, rules=rules)) for t in texts),
        )
        for i, (program, texts) in enumerate(zip(programs, suites, strict=True))
    ]
    config = game_config(rewards=RewardConfig().model_copy(update=rewards))
    judgement = judge_group(pool, problem, group, book, config)
    return score_question(problem, {}, group, judgement, config)
