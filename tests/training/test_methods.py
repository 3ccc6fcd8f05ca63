"""The compared methods: who plays, who learns from what. Scripted models, the real judge."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
from game_config import game_config
from scripted import PROMPTS, TOKENIZER, scripted_game

from codea1_jax.config import METHODS, MethodConfig, RewardConfig
from codea1_jax.game.rollouts import StepRollouts
from codea1_jax.training.step import PLAY
from data_pipeline import Problem
from sandbox import Limits, SandboxPool, Test

RULES = game_config(rewards=RewardConfig(suite_size=3))
GOLDEN = ("assert f(0) == 1", "assert f(1) == 2", "assert f(3) == sum([3, 1])", "assert f(7) == 8")
PROBLEM = Problem("plus-one", "Write f(x): return x + 1.", "def f(x):\n    return x + 1", "f", GOLDEN)
RIGHT, WRONG = "def f(x): return x + 1", "def f(x): return 1"
EASY, HARD = "assert f(0) == 1", "assert f(0) == 1\nassert f(4) == 5"
SUITES = {RIGHT: [EASY, HARD], WRONG: [EASY, HARD]}


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=1, limits=Limits(call_seconds=0.5)) as pool:
        yield pool


def play(
    pool: SandboxPool, method: str, said: Sequence[str] = (), suites: Mapping[str, Sequence[str]] | None = None
) -> StepRollouts:
    game = scripted_game(
        pool,
        {PROBLEM.question: said} if said else {},
        {(PROBLEM.question, program): written for program, written in (suites or {}).items()},
        RULES,
    )
    book = {PROBLEM.id: {Test("f(9)", "10"): 2}}
    return PLAY[method](game, [PROBLEM], book, (3,))


def completions(played: StepRollouts) -> dict[str, list[list[str]]]:
    """By policy, the texts of every group that it learns from, without their end of text."""
    return {
        policy: [[TOKENIZER.decode(t.completion) for t in group] for group in groups]
        for policy, groups in played.groups.items()
    }


def test_two_policies_learn_each_from_its_own_role(pool):
    played = play(pool, "a1", [RIGHT, WRONG], SUITES)
    assert completions(played) == {"code": [[RIGHT, WRONG]], "test": [[EASY, HARD]]}
    assert METHODS["a1"].policies == ("code", "test")
    # the right program passes the remembered test; the wrong one fails f(4)
    page = [(test.call, test.expected, frequency) for test, frequency in played.pages[PROBLEM.id].items()]
    assert page == [("f(9)", "10", 1), ("f(4)", "5", 1)]


def test_the_one_policy_of_self_play_learns_from_both_roles_with_the_same_rewards(pool):
    apart, together = (play(pool, method, [RIGHT, WRONG], SUITES) for method in ("a1", "self_play"))
    assert completions(together) == {"code": [[RIGHT, WRONG, EASY, HARD]]}
    [group] = together.groups["code"]
    assert group == [*apart.groups["code"][0], *apart.groups["test"][0]]
    assert together.pages == apart.pages
    assert METHODS["self_play"].policies == ("code",)


def test_the_golden_method_rewards_a_program_by_the_share_of_golden_tests_it_passes_and_asks_nobody_for_tests(pool):
    played = play(pool, "golden", [RIGHT, WRONG])
    [question] = played.questions
    assert [program.reward for program in question.programs] == [1, 1 / 4]  # of the four only f(0) is 1
    assert [(test.call, test.expected) for test in question.retrieved] == [
        ("f(0)", "1"),
        ("f(1)", "2"),
        ("f(3)", "4"),
        ("f(7)", "8"),
    ]
    assert completions(played) == {"code": [[RIGHT, WRONG]]}
    # two different rewards: (d/2)/(d/sqrt 2)
    assert [t.advantage for t in played.groups["code"][0]] == pytest.approx([0.707107, -0.707107], abs=1e-5)


def test_supervised_learning_answers_the_reference_with_some_golden_tests_others_in_every_step(pool):
    first, again = play(pool, "sft"), play(pool, "sft")
    assert first == again
    [[trajectory]] = first.groups["test"]
    assert trajectory.prompt == PROMPTS.test(PROBLEM, PROBLEM.solution)
    assert trajectory.completion[-1] in TOKENIZER.eos_ids
    assert trajectory.advantage == 1
    [[text]] = completions(first)["test"]
    assert len(set(text.split("\n"))) == 3
    assert set(text.split("\n")) < set(GOLDEN)
    game = scripted_game(pool, {}, {}, RULES)
    drawn = {PLAY["sft"](game, [PROBLEM], {}, (step,)).groups["test"][0][0].completion for step in range(9)}
    assert len(drawn) > 1
    assert METHODS["sft"].supervised
    black_box = replace(game, config=RULES.model_copy(update={"method": MethodConfig(white_box=False)}))
    blind = PLAY["sft"](black_box, [PROBLEM], {}, (3,)).groups["test"][0][0]
    assert blind == replace(trajectory, prompt=PROMPTS.test(PROBLEM, None))
