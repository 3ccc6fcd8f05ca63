"""2,000 random programs with suites under the original's rules: hangs, junk, unclosed blocks, and the mistake book.

`support/paper_rounds.py` computes what they are worth without reading or running a line; here the judge plays them.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from game_config import game_config
from paper_rounds import PROGRAMS, QUESTIONS, SUITES, Outcome, Round, outcomes, rounds
from scripted import scripted_game

from codea1_jax.config import Config, RolloutConfig, load
from codea1_jax.game.judging import submit_calls
from codea1_jax.game.rollouts import Page, QuestionRollout
from codea1_jax.game.round import play_round
from data_pipeline import Problem
from data_pipeline.responses import paper_program
from sandbox import Judge, Limits, SandboxPool

PRESET = load(Config, "1.5b/a1_paper")
SCRIPT_SECONDS = 0.15  # of CPU time, in place of the preset's ten: what hangs here hangs for ever


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=2, limits=Limits(memory_mb=256)) as pool:
        yield pool


def play(judge: Judge, played: Sequence[Round]) -> list[Outcome]:
    """One question's rounds by the project, as its preset has them."""
    config = _config(PROGRAMS, SUITES)
    page: Page = {}
    found = []
    for each in played:
        question = each.question
        problem = Problem("p", question.text, question.solution, "f", ())
        responses = [program.response(question) for program, _ in each.candidates]
        shown = [paper_program(response) for response in responses]
        suites = {
            (question.text, program): [suite.text for suite in own]
            for program, (_, own) in zip(shown, each.candidates, strict=True)
        }
        game = scripted_game(judge, {question.text: responses}, suites, config, reading=PRESET.reading)
        (rollout,) = play_round(game, [problem], {"p": page}, (0,)).questions
        page = rollout.page_after
        found.append(_outcome(rollout))
    return found


def _config(samples: int, suites: int) -> Config:
    sandbox = PRESET.sandbox
    assert sandbox.script_seconds is not None
    return game_config(
        RolloutConfig(samples=samples, suites=suites),
        method=PRESET.method,
        rewards=PRESET.rewards,
        sandbox=sandbox.model_copy(update={"script_seconds": SCRIPT_SECONDS}),
    )


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


@pytest.mark.parametrize("questions", [2, pytest.param(QUESTIONS, marks=pytest.mark.long)])
def test_rewards_validity_and_book_equal_the_originals_rules(pool, questions):
    for played in rounds(questions):
        assert play(pool, played) == outcomes(played)


def test_no_program_forges_a_verdict_of_a_script(pool):
    text = (Path(__file__).parents[1] / "sandbox" / "hostile_programs.txt").read_text()
    forging = text.partition("##### forged verdicts #####")[2].partition("#####")[0]
    programs = re.findall(r"^=== .+\n((?:(?!===).*\n)*)", forging, re.MULTILINE)
    programs = ["def f(x): return x + 1", *programs]
    problem, calls = Problem("id", "?", "", "f"), ("f(1)", "f(2)", "f(1)")
    pending = [submit_calls(pool, problem, program, calls, script_seconds=SCRIPT_SECONDS) for program in programs]
    answers = [[outcome.value for outcome in script.result().in_script or ()] for script in pending]
    right = ["2", "3", "2"]
    passed = [[value == expected for value, expected in zip(own, right, strict=True)] for own in answers]
    assert len(programs) > 30 and passed == [[True] * 3] + [[False] * 3] * (len(programs) - 1)


def test_the_rounds_are_of_every_kind():
    everything = [outcome for played in rounds() for outcome in outcomes(played)]
    assert {tuple(outcome.valid) for outcome in everything} >= {(True,) * 4, (False,) * 4}
    assert max(len(outcome.page) for outcome in everything) > 8  # more than a program faces


def test_the_book_runs_first_in_a_script_so_that_a_test_of_it_that_hangs_fails_all(pool):
    reference, hangs, wrong = (
        f"def f(x):\n    {body}return x + {n}\n" for body, n in (("", 1), ("while x == 2: pass\n    ", 1), ("", 2))
    )
    problem, suite = (
        Problem("p", "Write f(x).", reference, "f", ()),
        "```python\nassert f(1) == 2\nassert f(2) == 3\nassert f(3) == 4\n```",
    )
    programs = [f"```python\n{each}```" for each in (hangs, wrong)]
    suites = {("Write f(x).", paper_program(each)): [suite, suite] for each in programs}
    page: Page = {}
    rewards = []
    for _ in range(2):
        game = scripted_game(pool, {"Write f(x).": programs}, suites, _config(2, 2), reading=PRESET.reading)
        (rollout,) = play_round(game, [problem], {"p": page}, (0,)).questions
        page = rollout.page_after
        rewards.append([program.reward for program in rollout.programs])
    assert rewards[1] == [0, 0]


def test_repeated_calls_run_again_in_the_references_script_as_in_the_programs(pool):
    counts = "n = 0\ndef f(x):\n    global n\n    n += 1\n    return n\n"
    problem, suite = Problem("p", "Write f(x).", counts, "f", ()), "```python\nassert f(1) == 1\nassert f(2) == 2\n```"
    response = f"```python\n{counts}```"
    suites = {("Write f(x).", paper_program(response)): [suite, suite]}
    game = scripted_game(pool, {"Write f(x).": [response] * 2}, suites, _config(2, 2), reading=PRESET.reading)
    (rollout,) = play_round(game, [problem], {}, (0,)).questions
    assert [program.reward for program in rollout.programs] == [1.0, 1.0]
