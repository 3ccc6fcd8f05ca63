"""The released format of evalplus: types that JSON lacks are restored, and its own comparisons apply."""

import ast

import pyarrow.parquet as pq
import pytest
from own_checks import passes

from data_pipeline import evalplus, evalplus_release
from data_pipeline.evalplus_release import example_kinds, restored


def row(**changes):
    released = {
        "task_id": "Mbpp/901",
        "prompt": '"""\nAdd the numbers.\nassert add((1, 2)) == 3\n"""\n',
        "entry_point": "add",
        "canonical_solution": "def add(pair):\n    return sum(pair) if isinstance(pair, tuple) else None\n",
        "base_input": [[[1, 2]]],
        "plus_input": [[[0.1, 0.2]], [[3]]],
        "atol": 0,
        "assertion": "assert add((1, 2)) == 3",
    }
    return released | changes


def test_a_released_row_is_checked_against_its_own_reference():
    (problem,) = evalplus_release.FORMAT.read([row()]).problems
    assert (problem.id, problem.source, problem.entry_point) == ("MBPP/901", "mbppplus", "add")
    assert "def add(pair):" in problem.question
    assert passes(problem, problem.solution)
    assert passes(problem, "def add(pair):\n    return sum(pair) + 1e-9 * (type(pair[0]) is float)")
    assert not passes(problem, "def add(pair):\n    return sum(pair) + 1e-9")  # only floats may differ a little
    assert not passes(problem, "def add(pair):\n    return sum(pair) + 1")
    humaneval = row(task_id="HumanEval/1", prompt="def add(pair):\n", canonical_solution="    return sum(pair)\n")
    (problem,) = evalplus_release.FORMAT.read([humaneval]).problems
    assert (problem.question, problem.source) == ("def add(pair):\n", "humanevalplus")


def special(entry_point, reference, argument_lists, atol: float = 0):
    changes = {"entry_point": entry_point, "canonical_solution": reference, "base_input": argument_lists}
    return evalplus_release.FORMAT.read([row(**changes, plus_input=[], atol=atol, assertion="")]).problems[0]


@pytest.mark.parametrize(
    ("problem", "right", "wrong"),
    [
        (special("Diff", "def Diff(a):\n    return a", [[[1, 2]]]), "return [2, 1, 1]", "return [1]"),
        (special("check_str", "def check_str(a):\n    return True", [["a"]]), "return a", "return None"),
        (special("sum_div", "def sum_div(a):\n    return 6", [[6]]), "return 0", "return 5"),
        (special("find_zero", "def find_zero(a):\n    return 1", [[[-1, 1]]], 1e-4), "return 1.00001", "return 1.1"),
        (special("surface_Area", "def surface_Area(a, b):\n    return 33", [[3, 4]]), "return 34 - 1", "return 30"),
    ],
    ids=lambda value: getattr(value, "entry_point", None),
)
def test_special_comparisons_are_evalplus_own(problem, right, wrong):
    parameters = "a, b" if problem.entry_point == "surface_Area" else "a"
    assert passes(problem, f"def {problem.entry_point}({parameters}):\n    {right}")
    assert not passes(problem, f"def {problem.entry_point}({parameters}):\n    {wrong}")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"base_input": "x"}, "base_input is not a list of lists"),
        ({"base_input": [], "plus_input": None}, "no inputs"),
        ({"atol": None}, "atol is not a number"),
        ({"entry_point": "other"}, "the solution defines no function other"),
    ],
)
def test_a_bad_row_is_refused_with_the_reason(changes, reason):
    assert reason in evalplus_release.FORMAT.read([row(**changes)]).refused[0].reason


def as_json(value):
    if isinstance(value, tuple | set | list):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    return str(value) if isinstance(value, complex) else value


@pytest.mark.parametrize(
    ("example", "argument", "expected"),
    [
        ("f((1, (2, 3)))", [1, [2, [3, [4]]]], (1, (2, (3, (4,))))),  # tuples in tuples may continue
        ("f((1, 2))", [1, [2]], (1, [2])),
        ("f([(1, 2)])", [[1, [2]]], [(1, [2])]),
        ("f([[1], [2]])", [[1, [2]]], [[1, [2]]]),
    ],
)
def test_lists_deeper_than_the_examples_are_tuples_only_where_tuples_hold_tuples(example, argument, expected):
    assert restored([argument], example_kinds(f"assert {example}", "f")) == [expected]


def test_types_lost_in_json_are_restored_from_the_examples(some_rows):
    """In MBPP+ rows, whose checks still have the types, except where the examples show other types."""
    files, some = some_rows
    wrong = []
    rows = pq.read_table(files.evalplus).to_pylist()[:: 4 if some else 1]
    for problem in evalplus.TRAINING.read([row for row in rows if row["data_source"] == "mbppplus"]).problems:
        (inputs,) = (
            eval(ast.unparse(node.value), {"inf": float("inf"), "nan": 0.5})
            for node in ast.walk(ast.parse(problem.check))
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "inputs"
        )
        examples = "\n".join(line for line in problem.question.splitlines() if line.startswith("assert"))
        kinds = example_kinds(examples, problem.entry_point)
        if any(repr(restored(as_json(list(call)), kinds)) != repr(list(call)) for call in inputs):
            wrong.append(problem.id)
    # One example shows a tuple where the inputs are lists, the other shows no tuple.
    assert set(wrong) <= {"MBPP/145", "MBPP/2013"}
