"""Mutants of training questions' references: which are kept, and of which questions."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from codea1_jax.config import Config, load
from codea1_jax.game.judging import submit_calls
from codea1_jax.training.mutants import with_mutants
from codea1_jax.training.parts import make_training
from codea1_jax.training.questions import Questions
from data_pipeline import Problem
from data_pipeline.mutants import sample_mutants
from sandbox import Limits, SandboxPool, Status

SUM = "def f(n):\n    total = 0\n    while n > 0:\n        total += n\n        n -= 1\n    return total\n"
HANGING = SUM.replace("n -= 1", "n -= 0").rstrip()
SUMS = {"f(0)": 0, "f(1)": 1, "f(3)": 6, "f(5)": 15}
GOLDEN = tuple(f"assert {call} == {total}" for call, total in SUMS.items())
PROBLEM = Problem("sum", "Add up 1 to n.", SUM, "f", GOLDEN)
OWN = replace(PROBLEM, id="own", mutants=("def f(n):\n    return n",))
UNTESTED = replace(PROBLEM, id="untested", golden_tests=())


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=2, limits=Limits(call_seconds=0.2)) as pool:
        yield pool


@pytest.fixture(scope="module")
def made(pool: SandboxPool) -> tuple[Problem, ...]:
    """The three questions, with all mutants that count."""
    return with_mutants([PROBLEM, OWN, UNTESTED], pool, 50, 0)


def test_a_mutant_is_the_program_with_one_change():
    program = "def f(x, y=True):\n    return x * 2 if 0 < x <= 3 or x in (7,) else max(x, y)\n"
    text = "def f(x, y=True):\n    return {} if {} else max(x, y)"
    test = "0 < x <= 3 or x in (7,)"
    assert set(sample_mutants(program, 100, 0)) == {
        text.format("x + 2", test),
        text.format("x * 3", test),
        text.format("x * 1", test),
        text.format("x * 2", f"not ({test})"),
        text.format("x * 2", "0 < x <= 3 and x in (7,)"),
        *(text.format("x * 2", f"{n} < x <= 3 or x in (7,)") for n in (1, -1)),
        *(text.format("x * 2", f"0 < x <= {n} or x in (7,)") for n in (2, 4)),
        *(text.format("x * 2", f"0 < x <= 3 or x in ({n},)") for n in (6, 8)),
        *(
            text.format("x * 2", f"0 {first} x {second} 3 or x in (7,)")
            for first, second in (("<=", "<="), (">=", "<="), ("<", "<"), ("<", ">"))
        ),
        text.format("x * 2", "0 < x <= 3 or x not in (7,)"),
        text.format("x * 2", test).replace("max", "min"),
    }


def test_mutants_behave_unlike_the_reference_and_unlike_each_other_and_none_hangs(made, pool):
    programs = [SUM, *made[0].mutants]
    outcomes = [submit_calls(pool, PROBLEM, program, SUMS).result() for program in programs]
    ends = [tuple((each.by_call[call].status, each.by_call[call].value) for call in SUMS) for each in outcomes]
    assert len(set(ends)) == len(programs) > 3
    assert all(each.valid for each in outcomes)
    assert Status.TIMED_OUT not in {status for end in ends for status, _ in end}
    assert HANGING in set(sample_mutants(SUM, 100, 0)) - set(programs)


def test_a_question_keeps_its_own_mutants_and_has_none_where_no_test_shows_them_to_be_wrong(made):
    assert made[1:] == (OWN, UNTESTED)


def test_the_seed_draws_the_mutants(made, pool):
    assert sample_mutants(SUM, 3, 0) == sample_mutants(SUM, 3, 0) != sample_mutants(SUM, 3, 1)
    assert len(sample_mutants(SUM, 3, 0)) == 3 and set(sample_mutants(SUM, 3, 0)) < set(sample_mutants(SUM, 100, 1))
    two = with_mutants([PROBLEM], pool, 2, 0)[0].mutants
    assert len(two) == 2 and set(two) <= set(made[0].mutants)


def test_a_program_nested_too_deeply_has_no_mutant():
    assert sample_mutants(f"def f(x):\n    return {'-' * 2_000}x", 3, 0) == ()


def test_a_run_rewarded_by_mutants_has_them_of_the_questions_it_trains_on_and_every_run_of_held_out_ones(pool, caplog):
    source = Path(__file__).parents[2] / "docs" / "problems.jsonl"
    common = [f"data.source={source}", "data.heldout_share=0.3", "train.questions=1", "run.directory=unused"]

    def questions(*settings: str) -> Questions:
        return make_training(load(Config, "micro/a1", [*common, *settings]), pool).questions

    with caplog.at_level(logging.WARNING):
        rewarded = questions("rewards.test_value=mutation", "rewards.mutants=3")
    without = sum(not problem.mutants for problem in rewarded.train)
    warned = [record.getMessage() for record in caplog.records if "mutant" in record.getMessage()]
    said = f"{without} of {len(rewarded.train)} questions have no mutants: their own wrong programs take their place"
    assert warned == ([said] if without else [])
    assert {len(problem.mutants) for problem in rewarded.train} <= {0, 1, 2, 3} and without < len(rewarded.train)
    plain = questions("run.seed=1")
    assert not any(problem.mutants for problem in plain.train)
    assert plain.heldout == rewarded.heldout and any(problem.mutants for problem in plain.heldout)
    assert all(problem.solution not in problem.mutants for problem in plain.heldout)
    assert not any(problem.mutants for problem in questions("method.name=golden").heldout)  # nobody is shown them
