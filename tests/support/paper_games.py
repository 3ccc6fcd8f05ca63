"""Rounds as the preset `1.5b/a1_paper` plays them, with scripted models and a real judge."""

from collections.abc import Sequence

from game_config import game_config
from paper_rounds import Outcome
from scripted import scripted_game

from codea1_jax.config import Config, RolloutConfig, load
from codea1_jax.game.rollouts import Page, QuestionRollout
from codea1_jax.game.round import play_round
from data_pipeline import Problem
from data_pipeline.responses import paper_program
from sandbox import Judge

PRESET = load(Config, "1.5b/a1_paper")
Candidates = Sequence[tuple[str, Sequence[str]]]  # of a round: each program's response, with those of its suites


def play(judge: Judge, problem: Problem, played: Sequence[Candidates], script_seconds: float) -> list[Outcome]:
    """The rounds of one question. script_seconds: of CPU time, in place of the preset's ten."""
    sandbox = PRESET.sandbox.model_copy(update={"script_seconds": script_seconds})
    page: Page = {}
    found = []
    for candidates in played:
        responses = [response for response, _ in candidates]
        suites = {(problem.question, paper_program(response)): own for response, own in candidates}
        counts = {"samples": len(responses), "suites": len(candidates[0][1])}
        config = game_config(
            RolloutConfig().model_copy(update=counts),  # where there is one, a preset would refuse it
            method=PRESET.method,
            rewards=PRESET.rewards,
            sandbox=sandbox,
        )
        game = scripted_game(judge, {problem.question: responses}, suites, config, reading=PRESET.reading)
        (rollout,) = play_round(game, [problem], {problem.id: page}, (0,)).questions
        page = rollout.page_after
        found.append(_outcome(rollout))
    return found


def _outcome(question: QuestionRollout) -> Outcome:
    return Outcome(
        valid=[program.valid for program in question.programs],
        rewards=[round(program.reward, 6) for program in question.programs],
        suites=[
            [
                (len(each.validated.kept), each.validated.invalid, round(each.reward.reward, 6))
                for each in program.suites
            ]
            for program in question.programs
        ],
        page=[(test.call, test.expected, count) for test, count in question.page_after.items()],
    )
