"""A question's group whose programs and suites are given as texts: judged and rewarded as in training."""

from collections.abc import Sequence

from codea1_jax.config import RewardConfig
from codea1_jax.game.judging import judge_group
from codea1_jax.game.parsing import SuiteRules, extract_suite
from codea1_jax.game.players import Response
from codea1_jax.game.rollouts import Candidate, QuestionRollout
from codea1_jax.game.scoring import ScoringConfig, score_question
from data_pipeline import Problem
from sandbox import SandboxPool

RIGHT = "def f(x, y=0):\n    return [x + y, x]"
PROBLEM = Problem("p", "def f(x, y=0): ...", RIGHT, "f", ())


def played(
    pool: SandboxPool,
    programs: Sequence[str],
    suites: Sequence[Sequence[str]],
    problem: Problem = PROBLEM,
    **rewards: bool | str,
) -> QuestionRollout:
    """The group after judging: each program with its suites' texts; `rewards` differ from the defaults."""

    def response(text: str) -> Response:
        return Response(text)

    group = [
        Candidate(
            response(program),
            program,
            i,
            tuple((response(t), extract_suite(t, "f", rules=SuiteRules(most=16))) for t in texts),
        )
        for i, (program, texts) in enumerate(zip(programs, suites, strict=True))
    ]
    scoring = ScoringConfig(RewardConfig().model_copy(update=rewards), update_n=1)
    judgement = judge_group(pool, problem, group, (), scoring.judging)
    return score_question(problem, {}, (), group, judgement, scoring)
