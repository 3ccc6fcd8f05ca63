"""Samples files are read and written in the form of evalplus and bigcodebench."""

import json

import pytest

from codea1_jax.common.errors import UserError
from codea1_jax.evals.journal import Journal
from codea1_jax.evals.samples import (
    RESPONSES_FILE,
    JournaledPlayer,
    RecordedPlayer,
    read_programs,
    read_tests,
    references,
    sample_line,
)
from codea1_jax.game.players import ProgramRequest
from codea1_jax.game.rollouts import Candidate, Response
from codea1_jax.rollout import Completion
from data_pipeline import Problem

GROW = Problem("MBPP/2", "def grow(x):\n", "def grow(x):\n    return x + 1", "grow", ("assert grow(1) == 2",))
STAY = Problem("HumanEval/0", "def stay(x):\n", "def stay(x):\n    return x", "stay", ())


ENDS = (Completion((1, 2, 3), (0.0,) * 3, finished=True), Completion((4, 5), (0.0,) * 2, finished=False))
DRAWN = tuple(Candidate(Response(f"text {len(end.tokens)}", (), end), "program") for end in ENDS)


class DrawingPlayer(RecordedPlayer):
    def programs(self, requests):
        yield from [(0, DRAWN)]


def write(path, *rows):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def programs_of(recorded, problems):
    requests = [ProgramRequest(problem, samples=1) for problem in problems]
    return {i: tuple(each.program for each in written) for i, written in recorded.programs(requests)}


def test_solutions_and_completions_are_read_in_order_and_unknown_tasks_are_told(tmp_path):
    path = write(
        tmp_path / "samples.jsonl",
        {"task_id": "Mbpp/2", "solution": "def grow(x): return 3", "_identifier": "evalplus' own"},
        {"task_id": "HumanEval/0", "completion": "    return x"},
        {"task_id": "Mbpp/2", "solution": ""},
        {"task_id": "Mbpp/999", "solution": "x"},
    )
    recorded, unknown = read_programs(path, [GROW, STAY])
    assert programs_of(recorded, [GROW, STAY]) == {0: ("def grow(x): return 3", ""), 1: ("def stay(x):\n    return x",)}
    assert unknown == ("Mbpp/999",)
    lines = [sample_line(GROW, "a = 1\n"), sample_line(STAY, "é"), sample_line(GROW, "")]
    assert [line["task_id"] for line in lines] == ["Mbpp/2", "HumanEval/0", "Mbpp/2"]  # as the benchmark spells it
    recorded, _ = read_programs(write(path, *lines), [GROW, STAY])
    assert programs_of(recorded, [GROW, STAY]) == {0: ("a = 1\n", ""), 1: ("é",)}


def test_responses_are_written_down_as_they_are_with_how_they_ended(tmp_path):
    journal = Journal(tmp_path / "out", {})
    (tmp_path / "out" / RESPONSES_FILE).write_text('{"task_id": "MBPP/2", "resp')  # by one that was killed
    player = JournaledPlayer(DrawingPlayer(), journal)
    assert list(player.programs([ProgramRequest(GROW, 2)])) == [(0, DRAWN)]
    lines = [json.loads(line) for line in (tmp_path / "out" / RESPONSES_FILE).read_text().splitlines()]
    assert lines == [
        {"task_id": GROW.id, "response": "text 3", "finish": "stop", "tokens": 3},
        {"task_id": GROW.id, "response": "text 2", "finish": "length", "tokens": 2},
    ]
    assert player.figures | {"seconds": 0, "tokens_per_second": 0} == {
        **{"responses": 2, "cut_off": 1, "tokens": 5},
        **{"seconds": 0, "tokens_per_second": 0},
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 2: not JSON"),
        ("[]", "line 2: a list, not a JSON object"),
        ({"solution": "x"}, "line 2: no task_id"),
        ({"task_id": "MBPP/2"}, "line 2: no solution or completion"),
        ({"task_id": "MBPP/2", "solution": 3}, "line 2: no solution or completion"),
    ],
)
def test_a_line_that_is_no_sample_is_named(tmp_path, line, reason):
    path = write(tmp_path / "samples.jsonl", sample_line(GROW, "x"), line)
    with pytest.raises(UserError, match=reason):
        read_programs(path, [GROW])
    with pytest.raises(ValueError, match="no such file"):
        read_programs(tmp_path / "none.jsonl", [GROW])


def test_tests_are_read_and_the_references_are_the_datas_own(tmp_path):
    path = write(tmp_path / "tests.jsonl", {"task_id": "MBPP/2", "tests": ["assert grow(0) == 1"]})
    assert read_tests(path, [GROW])[0].tests_of == {"MBPP/2": ("assert grow(0) == 1",)}
    own = references([GROW, STAY])
    assert own.programs_of["MBPP/2"] == (GROW.solution,)
    assert own.tests_of == {"MBPP/2": GROW.golden_tests, "HumanEval/0": ()}
