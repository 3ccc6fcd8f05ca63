"""What a run that cannot learn, or a step that taught nothing, is told: each case once, by what it is."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from judged_group import RIGHT, played

from codea1_jax.config import Config, RolloutConfig, load
from codea1_jax.game.rollouts import StepRollouts
from codea1_jax.learn import Trajectory
from codea1_jax.rollout import Completion
from codea1_jax.training.advice import schedule_advice, step_advice
from sandbox import SandboxPool

WRONG = "def f(x, y=0):\n    return [0, 0]"


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(1) as pool:
        yield pool


def advice(preset: str, *overrides: str, trained: int, heldout: int = 0) -> list[str]:
    return list(schedule_advice(load(Config, preset, overrides), trained, heldout))


def test_a_thousand_questions_on_one_card_are_too_few_for_the_papers_batch():
    steps, held = advice("1.5b/a1_h100x1", trained=1000)
    assert "train.questions=256 a step and train.epochs=3 make 9 steps" in steps and "set train.questions=150" in steps
    assert held.startswith("no question is held out, so nothing shows whether the Test LLM improves")
    better = ["train.questions=32", "data.heldout_share=0.1"]
    assert advice("1.5b/a1_h100x1", *better, trained=900, heldout=100) == []


def test_the_papers_own_runs_and_the_demo_have_nothing_to_change_but_what_the_paper_holds_out():
    assert advice("micro/a1", trained=256, heldout=64) == []
    assert advice("1.5b/golden", trained=9_688) == []  # no Test LLM is trained
    assert len(advice("1.5b/a1_paper", trained=9_688)) == 1


def test_a_run_without_evaluations_or_with_few_is_told_so():
    (nothing,) = advice("micro/a1", "eval.every=0", trained=256, heldout=64)
    assert nothing.startswith("nothing is evaluated")
    (nothing,) = advice("micro/a1", trained=256)
    assert nothing.startswith("nothing is evaluated")
    (few,) = advice("micro/a1", "eval.every=40", "train.steps=50", trained=256, heldout=64)
    assert few == "eval.every=40 of 50 steps gives 3 points of a curve: set eval.every=5"
    assert advice("micro/a1", "train.steps=0", trained=256) == []


def lessons(pool: SandboxPool, programs: Sequence[str], suites: Sequence[str], *, finished: bool = True) -> list[str]:
    """The advice on a step of one group; a response's tokens do not matter, but whether they have an end."""
    question = played(pool, programs, [suites] * len(programs))

    def ended(each):
        return replace(each, response=replace(each.response, completion=Completion((1,), (-1.0,), finished)))

    told = tuple(
        replace(ended(program), suites=tuple(map(ended, program.suites)), program=program.program * finished)
        for program in question.programs
    )
    question = replace(question, programs=told)
    groups = {
        "code": [[Trajectory((1,), (2,), p.advantage) for p in told]],
        "test": [[Trajectory((1,), (2,), s.advantage) for p in told for s in p.suites if s.trained_on]],
    }
    return list(step_advice(StepRollouts((question,), groups=groups), RolloutConfig()))


VALID, INVALID, RAISES = "assert f(1) == [1, 1]\nassert f(2) == [2, 2]", "assert f(1) == [5, 5]", "assert f('a') == 1"


@pytest.mark.parametrize(
    ("programs", "suites", "code", "test"),
    [
        ([RIGHT, RIGHT], [VALID, VALID], "every program passed every test", "the suites against each program earned"),
        ([WRONG, WRONG], [VALID, VALID], "no program passed a test", "the suites against each program earned"),
        ([RIGHT, WRONG], [INVALID, INVALID], None, "no test states the right value"),
        (
            [RIGHT, WRONG],
            [RAISES, RAISES],
            "no suite had a test that the reference answers",
            "no test states the right value",
        ),
        (["", ""], ["", ""], "in no response a program could be read", "in no response a test could be read"),
        (["import nothing_of_it", "x = f("], [VALID, VALID], "no program runs", None),
        ([RIGHT, WRONG], [VALID, INVALID], None, None),
    ],
)
def test_a_step_that_taught_nothing_says_why(pool, programs, suites, code, test):
    told = dict(line.removeprefix("this step taught ").split(" nothing: ") for line in lessons(pool, programs, suites))
    assert told.get("code", "").startswith(code or "") and ("code" in told) == (code is not None)
    if test is not None:
        assert told["test"].startswith(test)


def test_responses_that_are_all_cut_off_name_the_length_to_raise(pool):
    told = lessons(pool, ["", ""], ["", ""], finished=False)
    assert any("every response was cut off at rollout.code_tokens=4096; raise it" in line for line in told)
