"""Which suites are learned from, and which groups teach a policy something."""

import numpy as np
import pytest
from game_config import game_config
from scripted import CONFIG, scripted_game

from codea1_jax.config import RewardConfig, TrainConfig
from codea1_jax.game.rollouts import QuestionRollout
from codea1_jax.game.round import play_round
from codea1_jax.game.selection import can_teach, most_contested
from data_pipeline import Problem
from sandbox import SandboxPool

QUESTION = "Write double(x)."
PROBLEM = Problem("double", QUESTION, "def double(x): return 2 * x", "double", ())
RIGHT, TWICE, WRONG = "def double(x): return x + x", "def double(x): return x * 2", "def double(x): return x * x"
EASY, HARD = "assert double(2) == 4", "assert double(3) == 6"  # 2 * 2 == 2 + 2
LYING, HALF = "assert double(3) == 7", "assert double(2) == 4\nassert double(3) == 6"


def play(pool: SandboxPool, suites: dict[str, list[str]], rewards: RewardConfig = CONFIG.rewards) -> QuestionRollout:
    """A round of these programs, each with two suites against it."""
    programs = list(suites)
    rules = game_config(rewards=rewards, train=TrainConfig(update_n=2))
    answers = {(QUESTION, program): said for program, said in suites.items()}
    game = scripted_game(pool, {QUESTION: programs}, answers, rules)
    (question,) = play_round(game, [PROBLEM], {}, (1,)).questions
    return question


@pytest.mark.parametrize(
    ("suites", "code", "test"),
    [
        ({RIGHT: [EASY, HARD], TWICE: [EASY, EASY]}, False, False),
        ({RIGHT: [EASY, EASY], WRONG: [HARD, HARD]}, True, False),
        ({RIGHT: [EASY, EASY], WRONG: [EASY, HARD]}, True, True),  # one finds the bug
        ({RIGHT: [EASY, LYING], TWICE: [EASY, EASY]}, False, True),  # what is invalid fails nobody
    ],
)
def test_a_group_teaches_whose_outcomes_differ(pool, suites, code, test):
    question = play(pool, suites)
    assert (can_teach(question, "code"), can_teach(question, "test")) == (code, test)


def test_rewards_that_differ_by_degree_alone_teach_nothing(pool):
    wrong_too = "def double(x): return x ** 2"
    question = play(pool, {WRONG: [HALF, HALF], wrong_too: [HARD, HARD]})
    first, second = (program.reward for program in question.programs)
    assert first != second and not can_teach(question, "code")


def test_where_tests_are_pooled_a_program_passes_those_of_its_siblings(pool):
    suites = {WRONG: [EASY, EASY], RIGHT: [HARD, HARD]}
    assert not can_teach(play(pool, suites), "code")
    assert can_teach(play(pool, suites, RewardConfig(pool_tests=True)), "code")


def test_programs_that_face_nothing_have_passed_nothing(pool):
    question = play(pool, {RIGHT: ["none", "none"], WRONG: [LYING, LYING]})
    assert not any(program.passed for program in question.programs) and not can_teach(question, "code")


def test_the_candidates_with_the_largest_spread_are_elected():
    rng = np.random.default_rng(0)
    rewards = rng.random((8, 8)).round(3).tolist()
    order = np.argsort(-np.std(rewards, axis=1), kind="stable")
    for count in (1, 3, 8):
        assert most_contested(rewards, count) == tuple(sorted(order[:count]))


def test_ties_go_to_the_lower_index():
    assert most_contested([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.2, 0.3]], 1) == (1,)


def test_a_candidate_without_suites_has_no_spread():
    assert most_contested([[], [0.1, 0.2]], 1) == (1,)
