"""Forgetting, of rollouts whose figure is known by hand."""

from pathlib import Path
from typing import Any

import pytest

from codea1_jax.reproduce.forgetting import forgetting
from codea1_jax.run.telemetry import rollout_lines, write_rollouts


def judged(verdicts: str) -> list[dict[str, str]]:
    return [{"verdict": {"p": "passed", "f": "failed", "t": "timed out"}[each]} for each in verdicts]


def program(book: str, *suites: str, valid: bool = True) -> dict[str, Any]:
    return {"valid": valid, "book": judged(book), "suites": [{"tests": judged(suite)} for suite in suites]}


RIGHT, WRONG = program("", "pp", "p"), program("", "p", "f")


def visit(name: str, right: int, wrong: int) -> dict[str, Any]:
    return {"question_id": name, "programs": [RIGHT] * right + [WRONG] * wrong}


def forgotten(folder: Path, *steps: list[dict[str, Any]]) -> float | None:
    for step, questions in enumerate(steps, start=1):
        write_rollouts(folder, step, rollout_lines(questions))
    return forgetting(folder)


def test_it_is_the_best_earlier_visit_minus_the_last_one(tmp_path):
    steps = (
        [visit("lost", 1, 3), visit("gained", 0, 4)],
        [visit("lost", 4, 0), visit("once", 4, 0)],
        [visit("gained", 1, 3), visit("lost", 3, 1)],
        [visit("lost", 2, 2)],
    )
    assert forgotten(tmp_path, *steps) == pytest.approx(100 * ((4 / 4 - 2 / 4) + (0 / 4 - 1 / 4)) / 2)


def test_more_gained_than_lost_is_negative(tmp_path):
    assert forgotten(tmp_path, [visit("q", 1, 3)], [visit("q", 4, 0)]) == -75


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (program("p", "p"), 0),
        (program("pf", "p"), 100),  # a remembered bug
        (program("", "p", "pt"), 100),
        (program("p"), 0),  # suites without a usable test, or a method that has golden tests for a book
        (program("", "p", valid=False), 100),
        (program("", valid=False), 100),
    ],
)
def test_a_program_passes_if_it_executes_and_passes_its_suites_and_the_book(tmp_path, last, expected):
    assert forgotten(tmp_path, [visit("q", 1, 0)], [{"question_id": "q", "programs": [last]}]) == expected


def test_programs_that_face_no_test_show_nothing(tmp_path):
    untested = {"question_id": "q", "programs": [program("", ""), program("")]}
    assert forgotten(tmp_path, [visit("q", 1, 1)], [untested]) is None
    half = {"question_id": "q", "programs": [program(""), RIGHT, WRONG]}
    assert forgotten(tmp_path, [visit("q", 1, 0)], [half], [untested]) == 50


def test_nothing_is_forgotten_of_questions_met_once(tmp_path):
    assert forgotten(tmp_path, [visit("a", 1, 0)], [visit("b", 1, 0)]) is None
    assert forgetting(tmp_path / "not trained") is None
