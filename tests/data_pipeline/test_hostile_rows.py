"""A row with any content is read as a problem or refused by its id; no row prevents reading the others."""

import json

import pytest
from test_benchmarks import BIGCODE_ROW, HUMANEVAL_ROW, MBPP_ROW, TRAINING_ROW, UNLEAKED_ROW
from test_sources import AUTHORS_ROW, KODCODE_ROW
from test_stream_rows import APPS, CODE_CONTESTS, DEEPCODER, FUSION, LIVE, OWN, PLUS, TACO

from data_pipeline.golden import stream_line
from data_pipeline.reading import load
from data_pipeline.sources import find_format

FUNCTION = "def f(x):\n    return x"
ROWS = {
    "problems": {"id": "1", "question": "?", "solution": FUNCTION, "entry_point": "f", "tests": ["assert f(1) == 1"]},
    "programs": OWN,
    "KodCode": KODCODE_ROW,
    "KodCode for training": AUTHORS_ROW,
    "BigCodeBench": BIGCODE_ROW,
    "HumanEval+": HUMANEVAL_ROW,
    "MBPP+": MBPP_ROW,
    "evalplus for training": TRAINING_ROW,
    "CodeContests": CODE_CONTESTS,
    "CodeContests+": PLUS,
    "APPS": APPS,
    "TACO": TACO,
    "DeepCoder": DEEPCODER,
    "LiveCodeBench": LIVE,
    "SandboxFusion": FUSION,
    "UnLeakedTestBench": UNLEAKED_ROW,
}
NAMES = ("id", "question_id", "task_id", "name", "problem_id", "labels")
ASKED = ("question", "problem")  # by which TACO and DeepCoder name their rows


def nested(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


SUM = f"1{' + 1' * 950}"  # Python parses it, and a walk over its tree ends in RecursionError
TEXTS = (
    *("", " ", "\ud800", "x\0y", "9" * 5_000, "f.g", "def", "assert f({[]: 1}) == 1", "@" * 900 + FUNCTION),
    *(f"# coding: nothing-like-it\n{FUNCTION}", f"\ufeff{FUNCTION}", f"{'x = ' * 2_000}1", f"assert f({SUM}) == 1"),
    *(f"def f(x):\n    return {value}" for value in (SUM, "9" * 5_000, "not " * 900 + "x")),
    *(f"def f(x={SUM}):\n    return x", f"def check(f):\n    assert {SUM}"),
)
VALUES = (
    *TEXTS,
    *([text] for text in TEXTS),
    *(None, 5, -1, 1.5, float("nan"), 10**400, True, [], {}, [None], [5], [{}], [[]], [[1, [2]]], [[[[1]]]]),
    *(
        nested(900),
        [[{"a": []}]],
        {"a": 1},
        {"question_id": 5, "function_name": []},
        {"question_id": "1", "imports": 5},
    ),
)


def named(row, name):
    """The row with another id."""
    extra = {"extra_info": row["extra_info"] | {"question_id": name}} if "extra_info" in row else {}
    names = {field: name for field in NAMES if field in row} or {field: name for field in ASKED if field in row}
    return row | names | extra | ({"labels": json.dumps({"name": name})} if "labels" in row else {})


@pytest.mark.parametrize("name", ROWS)
def test_nothing_in_a_row_ends_the_reading(name):
    good = ROWS[name]
    row_format, first = find_format([good]), named(good, "first")
    assert row_format is not None
    read = row_format.read
    assert len(read([first, good]).problems) == 2
    for field in good:
        without = {key: value for key, value in good.items() if key != field}
        for row in (without, *(without | {field: value} for value in VALUES)):
            loaded = read([first, row])
            assert len(loaded.problems) + len(loaded.refused) == 2, row
            assert all(refusal.reason and "\n" not in refusal.reason for refusal in loaded.refused), row
            assert loaded.problems[:1] == read([first]).problems


def test_each_line_of_json_that_python_cannot_read_is_refused(tmp_path):
    good = '{"id": "1", "question": "?", "solution": "def f(x): return x", "entry_point": "f"}'
    bad = ['{"id": ' + "9" * 5_000 + "}", '{"id": ' + "[" * 100_000, '{"id": "\\ud800"}', "NaN", "{"]
    (tmp_path / "rows.jsonl").write_text("\n".join([*bad, good]))
    loaded = load(str(tmp_path / "rows.jsonl"))
    assert [problem.id for problem in loaded.problems] == ["1"]
    assert len(loaded.refused) == len(bad)
    (tmp_path / "rows.json").write_text(bad[0][:-1])
    with pytest.raises(ValueError, match=r"rows.json: not readable as json: "):
        load(str(tmp_path / "rows.json"))


def test_integers_of_any_length_are_read_where_they_are_text(tmp_path):
    long = "7" * 9_000
    tests = f'[{{"input": {long}, "output": [{long}, 1]}}]'
    row = '{"id": "1", "question": "?", "solution": "print(1)", "tests": ' + tests + "}"
    (tmp_path / "rows.jsonl").write_text(row)
    (problem,) = load(str(tmp_path / "rows.jsonl")).problems
    assert problem.golden_tests == (stream_line(long, f"{long}\n1"),)
