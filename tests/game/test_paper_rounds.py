"""2,000 random programs with suites under the original's rules: hangs, junk, unclosed blocks, and the mistake book.

`support/paper_rounds.py` computes what they are worth without reading or running a line; here the judge plays them.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from paper_games import play as play_as_preset
from paper_rounds import QUESTIONS, Outcome, Round, outcomes, rounds
from program_files import read_programs

from codea1_jax.game.judging import submit_calls
from data_pipeline import Problem
from sandbox import Judge, Limits, SandboxPool

SCRIPT_SECONDS = 0.15  # of CPU time, in place of the preset's ten: what hangs here hangs for ever


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=2, limits=Limits(memory_mb=256)) as pool:
        yield pool


def play(judge: Judge, played: Sequence[Round]) -> list[Outcome]:
    """One question's rounds by the project, as its preset has them."""
    question = played[0].question
    problem = Problem("p", question.text, question.solution, "f", ())
    candidates = [
        [(program.response(question), [suite.text for suite in own]) for program, own in each.candidates]
        for each in played
    ]
    return play_as_preset(judge, problem, candidates, SCRIPT_SECONDS)


@pytest.mark.parametrize("questions", [2, pytest.param(QUESTIONS, marks=pytest.mark.long)])
def test_rewards_validity_and_book_equal_the_originals_rules(pool, questions):
    for played in rounds(questions):
        assert play(pool, played) == outcomes(played)


def test_no_program_forges_a_verdict_of_a_script(pool):
    hostile = read_programs(Path(__file__).parents[1] / "sandbox" / "hostile_programs.txt")
    programs = ["def f(x): return x + 1", *hostile["forged verdicts"].values()]
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
