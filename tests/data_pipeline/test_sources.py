"""Files of problems: every row is read, or refused by its id with a reason."""

import ast
import codecs
import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from gcs_emulator import running_emulator
from own_rows import fixture_rows

import data_pipeline
from data_pipeline import Loaded, Problem, kodcode, micro, problem_files, tfds_files
from data_pipeline.golden import plain_golden_tests, read_golden_tests
from data_pipeline.reading import hold_out, read
from data_pipeline.source_code import function_under_test
from data_pipeline.sources import FORMATS, find_format
from data_pipeline.validate import failures
from sandbox import FEW_ULPS, SandboxPool, Task, Tolerance

KODCODE_ROW, OWN_ROW, CLASS_ROW, AUTHORS_ROW = fixture_rows("functions").values()
CLASS_ROW = KODCODE_ROW | CLASS_ROW


def write_jsonl(path: Path, rows: list) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def reasons(loaded: Loaded) -> dict[str, str]:
    return {refusal.id: refusal.reason for refusal in loaded.refused}


def test_a_kodcode_row_whose_tests_are_of_a_class_is_a_problem_of_that_class():
    (problem,) = kodcode.FORMAT.read([CLASS_ROW]).problems
    assert (problem.task, problem.entry_point, problem.called) == (Task.CLASS, "Sum", "run_calls")
    assert problem.question.endswith("class Sum:\n    def __init__(self):\n    def add(self, x: int) -> int:")
    assert plain_golden_tests(problem) == (
        "made = Sum()\nmade.add(1)\nassert made.add(2) == 3",
        "assert Sum().add(5) == 5",
    )
    wrong = replace(problem, solution=problem.solution.replace("+= x", "= x"))
    with SandboxPool(workers=1) as pool:
        assert [reason is None for reason in failures([problem, wrong], pool)] == [True, False]


def test_a_kodcode_row_becomes_a_problem_whose_question_declares_the_function():
    (problem,) = kodcode.FORMAT.read([KODCODE_ROW]).problems
    assert problem.id == "K1"
    assert problem.entry_point == "add"
    assert problem.golden_tests == ("assert add(1, 2) == 3", "assert add(1) == 1")
    assert problem.question == "Add two numbers.\n\ndef add(a: int, b: int=0):"
    assert problem.source == "kodcode"


def test_a_question_that_declares_the_function_is_left_as_it_is():
    question = 'def add(a, b):\n    """Adds."""'
    (problem,) = kodcode.FORMAT.read([KODCODE_ROW | {"question": question}]).problems
    assert problem.question == question


@pytest.mark.parametrize("infos", [None, [], [{"function_name": "helper"}], [{"function_name": "gone"}]])
def test_the_entry_point_is_the_function_that_the_tests_call(infos):
    (problem,) = kodcode.FORMAT.read([KODCODE_ROW | {"test_info": infos}]).problems
    assert problem.entry_point == "add"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"question": "  "}, "no question"),
        ({"question": 3}, "question is of type int, not text"),
        ({"solution": None}, "no solution"),
        ({"solution": "def add(:"}, "the solution does not parse: invalid syntax"),
        ({"solution": "add = 1"}, "the solution defines neither a function nor a class"),
        ({"test": "", "test_code": None}, "no test or test_code"),
        ({"test": "def test(:"}, "the test code does not parse"),
        ({"test": "def test_x():\n    assert add is not None"}, "no test of the form assert call == value"),
        ({"test_info": "add"}, "test_info is not a list of objects"),
    ],
)
def test_a_bad_kodcode_row_is_refused_by_id_and_reason(change, reason):
    loaded = kodcode.FORMAT.read([KODCODE_ROW | change, KODCODE_ROW | {"question_id": "K2"}])
    assert [problem.id for problem in loaded.problems] == ["K2"]
    assert list(reasons(loaded)) == ["K1"]
    assert reason in reasons(loaded)["K1"]


def test_rows_without_an_id_and_repeated_ids_are_refused():
    loaded = kodcode.FORMAT.read([KODCODE_ROW, KODCODE_ROW, KODCODE_ROW | {"question_id": None}])
    assert len(loaded.problems) == 1
    assert reasons(loaded) == {"K1": "row 2 has the id of an earlier row", "row 3": "no question_id"}


def test_a_row_of_the_authors_own_training_set_is_read_with_its_description(tmp_path):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([AUTHORS_ROW]), tmp_path / "mix.parquet")
    (problem,) = read(tmp_path / "mix.parquet", difficulties=("hard",)).problems
    assert (problem.id, problem.source, problem.entry_point) == ("K7", "kodcode", "add")
    assert problem.question == "Add two numbers, as in add(1, 2) == 3.\n\ndef add(a, b=0):"
    assert problem.described == "Add two numbers.\n\ndef add(a, b=0):"
    assert json.loads(problem.prompt) == AUTHORS_ROW["prompt"]
    assert problem.golden_tests == ("assert add(1, 2) == 3", "assert add(1) == 1", "assert add(4, 4) == 8")
    inside = {**AUTHORS_ROW, "clean_description": None, "problem": "Add."}
    inside["extra_info"] = {"question_id": "K7", "clean_description": "Sum."}
    (problem,) = kodcode.AUTHORS_FORMAT.read([inside]).problems
    assert (problem.question, problem.described) == ("Add.\n\ndef add(a, b=0):", "Sum.\n\ndef add(a, b=0):")


def test_a_row_of_your_own_keeps_its_prompt_and_one_that_is_no_conversation_is_refused(tmp_path):
    row = {"id": "a", "question": "Add.", "solution": "def f(x):\n    return x", "entry_point": "f"}
    (asked,) = problem_files.FORMAT.read([row | {"prompt": AUTHORS_ROW["prompt"]}]).problems
    problem_files.write(tmp_path / "again.jsonl", [asked])
    assert read(tmp_path / "again.jsonl").problems == (asked,)
    assert json.loads(asked.prompt) == AUTHORS_ROW["prompt"]
    assert [p.prompt for p in problem_files.FORMAT.read([row, row | {"id": "b", "prompt": "Add."}]).problems] == [
        "",
        "",
    ]
    for prompt in ([{"role": "user"}], ["Add."], [{"role": "user", "content": 1}]):
        (refusal,) = problem_files.FORMAT.read([row | {"prompt": prompt}]).refused
        assert refusal.reason == "prompt is not a conversation: a list of {role, content}"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"extra_info": 3}, "extra_info is not an object"),
        ({"extra_info": None}, "no question_id"),
        ({"prompt": "Add."}, "prompt is not a list of objects"),
        ({"GT_test": ["assert add(1) > 0"] * 0}, "no test of the form assert call == value"),
    ],
)
def test_a_bad_row_of_the_authors_is_refused_with_the_reason(change, reason):
    (refusal,) = kodcode.AUTHORS_FORMAT.read([AUTHORS_ROW | change]).refused
    assert refusal.reason == reason


def test_rows_are_lines_whatever_characters_they_hold(tmp_path):
    path = tmp_path / "odd.jsonl"
    path.write_text(json.dumps(OWN_ROW | {"question": "a\u2028b\x0bc"}, ensure_ascii=False) + "\n\n[]\n\n")
    loaded = read(path)
    assert loaded.problems[0].question == "a\u2028b\x0bc"
    assert list(reasons(loaded)) == ["row 2"]  # blank lines are left out


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl", "rows.jsonl.gz"])
def test_rows_are_read_whichever_of_jsons_forms_the_file_has_and_however_it_begins(tmp_path, name, end, mark):
    rows = [OWN_ROW, OWN_ROW | {"id": "mine/2", "question": "Zwei?\u2028é"}]
    lines = end.join(json.dumps(row).encode() for row in rows)
    forms = [lines, lines + end, json.dumps(rows).encode(), json.dumps(rows, indent=1).encode().replace(b"\n", end)]
    if name.endswith(".json"):
        forms.append(json.dumps({"a": rows[0], "b": rows[1]}).encode())
    for form in forms:
        content = mark + form
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        loaded = read(tmp_path / name)
        assert [problem.id for problem in loaded.problems] == ["mine/1", "mine/2"], form
        assert loaded.refused == ()
    (tmp_path / "one.json").write_bytes(mark + json.dumps(OWN_ROW).encode())
    assert [problem.id for problem in read(tmp_path / "one.json").problems] == ["mine/1"]


def test_a_bad_line_of_json_lines_named_json_is_refused_alone(tmp_path):
    (tmp_path / "rows.json").write_text(f"{{oops\n{json.dumps(OWN_ROW)}\n")
    loaded = read(tmp_path / "rows.json")
    assert [problem.id for problem in loaded.problems] == ["mine/1"]
    assert list(reasons(loaded)) == ["row 1"]


@pytest.mark.parametrize("name", ["\ufb01nd", "ｆｉｎｄ", "find", "ﬁnd"])
@pytest.mark.parametrize("in_code", ["\ufb01nd", "find", "fi\uff4ed"])
def test_an_entry_point_is_pythons_name_in_whatever_normal_form_it_is_written(name, in_code):
    function = f"def {in_code}(x):\n    return x"
    own = OWN_ROW | {"solution": function, "entry_point": name, "tests": [f"assert {in_code}(1) == 1"]}
    (problem,) = problem_files.FORMAT.read([own]).problems
    assert (problem.entry_point, problem.golden_tests) == ("find", ("assert find(1) == 1",))
    ult = {"task_id": "1", "func_name": name, "code": function, "prompt": "?", "test_list": [f"assert {name}(1) == 1"]}
    check = "def check(candidate):\n    assert candidate(1) == 1"
    human = {"task_id": "HumanEval/1", "prompt": function[:-8], "canonical_solution": "return x", "entry_point": name}
    trained = {"problem": "?", "GT_code": function, "test": check, "data_source": "d"}
    trained |= {"extra_info": {"question_id": "1", "function_name": name}}
    kod = KODCODE_ROW | {"solution": function, "test": f"def test():\n    assert {name}(1) == 1"}
    kod |= {"test_info": [{"function_name": name}]}
    for row in (ult, human | {"test": check}, trained, kod):
        (problem,) = find_format([row]).read([row]).problems
        assert problem.entry_point == "find"
        assert problem.question.count("def ") <= 1


def test_own_problems_are_read_line_by_line(tmp_path):
    path = write_jsonl(
        tmp_path / "mine.jsonl",
        [
            OWN_ROW,
            "{not json",
            "[1]",
            OWN_ROW | {"id": "mine/2", "tests": None},
            OWN_ROW | {"id": "mine/3", "entry_point": "g"},
            OWN_ROW | {"id": "mine/4", "tests": ["assert f(1) == 2", "print(f(1))"]},
            OWN_ROW | {"id": "mine/5", "tests": "assert f(1) == 2"},
        ],
    )
    loaded = read(path)
    assert [problem.id for problem in loaded.problems] == ["mine/1", "mine/2", "mine/4"]
    assert [problem.golden_tests for problem in loaded.problems] == [("assert f(2) == 4",), (), ("assert f(1) == 2",)]
    refused = reasons(loaded)
    assert list(refused) == ["row 2", "row 3", "mine/3", "mine/5"]
    assert refused["row 2"].startswith("not JSON: Expecting property name")
    assert refused["row 3"] == "a list, not a JSON object"
    assert refused["mine/3"] == "the solution defines no function g"
    assert refused["mine/5"] == "tests is not a list"
    assert [vars(test) for test in loaded.dropped] == [
        {
            "id": "mine/4",
            "reason": "the test 'print(f(1))' is left out: it is outside the language of tests: not an assert",
        }
    ]


@pytest.mark.parametrize(
    ("test", "line"),
    [
        ("assert f(1)==0.5", "assert f(1) == 0.5"),
        ("assert abs(f(1) - 0.5) < 1e-3", "assert f(1) == pytest.approx(0.5, rel=0.0, abs=0.001)"),
        ("assert abs(0.5 - sum(f(1))) <= 0.9", "assert sum(f(1)) == pytest.approx(0.5, rel=0.0, abs=0.9)"),
        ("assert abs(0.5 - sum(f(1))) <= 1", "assert bool(abs(0.5 - sum(f(1))) <= 1) == True"),
        ("assert f(1) == pytest.approx([0.5])", "assert f(1) == pytest.approx([0.5], rel=1e-06, abs=1e-12)"),
        ("assert f(1) == pytest.approx(0.5, abs=0.1)", "assert f(1) == pytest.approx(0.5, rel=0.0, abs=0.1)"),
        ("assert 3 == f(1)", "assert f(1) == 3"),
        ("assert [0.5] == sorted(f(1))", "assert sorted(f(1)) == [0.5]"),
        ("assert pytest.approx(0.5, abs=0.1) == f(1)", "assert f(1) == pytest.approx(0.5, rel=0.0, abs=0.1)"),
        ("assert f(1)", "assert bool(f(1)) == True"),
        ("assert not f(1)", "assert bool(not f(1)) == True"),
        ("assert f(1) != 3", "assert bool(f(1) != 3) == True"),
        ("assert f(1) in (1, 2)", "assert bool(f(1) in (1, 2)) == True"),
        ("assert 0.5 == f(1) == 0.5", "assert bool(0.5 == f(1) == 0.5) == True"),
        ("assert f(1) != unknown", None),
        ("assert f(1) == f(2)", None),
        (
            {"test": "assert f(1) == 0.5", "atol": 0.01, "rtol": None},
            "assert f(1) == pytest.approx(0.5, rel=0.0, abs=0.01)",
        ),
        ({"test": "assert abs(f(1) - 0.5) < 0.1", "rtol": 0.2}, "assert f(1) == pytest.approx(0.5, rel=0.2, abs=0.0)"),
    ],
)
def test_a_tolerance_of_a_test_is_read_and_written_again_as_it_is(tmp_path, test, line):
    (problem,) = read(write_jsonl(tmp_path / "mine.jsonl", [OWN_ROW | {"tests": [test]}])).problems
    assert (problem.golden_tests, problem.tolerance) == ((line,) if line else (), FEW_ULPS)
    problem_files.write(tmp_path / "again.jsonl", [problem])
    assert read(tmp_path / "again.jsonl").problems == (problem,)
    assert tfds_files.read(tfds_files.write(tmp_path, "problems", [problem])) == (problem,)


def test_a_questions_tolerance_holds_for_its_tests_and_stays_with_it(tmp_path):
    tests = ["assert f(1) == 0.5", "assert abs(f(2) - 1) < 0.2"]
    row = OWN_ROW | {"tests": tests, "atol": 0.1, "rtol": 1e-3}
    (problem,) = read(write_jsonl(tmp_path / "mine.jsonl", [row])).problems
    assert [test.tolerance for test in read_golden_tests(problem)] == [Tolerance(0.1, 0.001), Tolerance(0.2)]
    assert problem.tolerance == Tolerance(0.1, 0.001)
    assert plain_golden_tests(problem) == ("assert f(1) == 0.5", "assert f(2) == 1")
    problem_files.write(tmp_path / "again.jsonl", [problem])
    assert read(tmp_path / "again.jsonl").problems == (problem,)
    assert tfds_files.read(tfds_files.write(tmp_path, "problems", [problem])) == (problem,)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"atol": "1e-6"}, "atol is a text, not a number"),
        ({"rtol": True}, "rtol is true or false, not a number"),
        ({"atol": -1}, "atol must be a number of at least 0 and below infinity, not -1.0"),
        ({"atol": int("9" * 400)}, "atol is larger than any float"),
        ({"rtol": -(10**400)}, "rtol is larger than any float"),
    ],
)
def test_a_question_with_an_impossible_tolerance_is_refused_and_such_a_test_dropped(change, reason):
    row = OWN_ROW | {"tests": [{"test": "assert f(1) == 2"} | change, "assert f(2) == 4"]}
    (problem,) = problem_files.FORMAT.read([row]).problems
    assert problem.golden_tests == ("assert f(2) == 4",)
    (dropped,) = problem_files.FORMAT.read([row]).dropped
    assert dropped.reason.startswith("the test ") and dropped.reason.endswith(f"is left out: {reason}")
    assert reasons(problem_files.FORMAT.read([OWN_ROW | change])) == {"mine/1": reason}


@pytest.mark.parametrize(
    "test",
    [
        "assert abs(f(1) - g(1)) < 1e-6",
        "assert abs(f(1) - f(2)) < 1e-6",
        "assert abs(f(1) - 0.5) < f(2)",
        "assert abs(f(1) - 0.5) < 1e400",
        f"assert abs(f(1) - 0.5) < {'9' * 400}",
        f"assert f(1) == pytest.approx(0.5, rel={'9' * 400})",
        "assert f(1) == pytest.approx(0.5, nan_ok=True)",
        "assert f(1) == pytest.approx(0.5, nan_ok=1)",
        "assert f(1) == pytest.approx(f(2))",
        "assert f(1) == other.approx(0.5)",
        "import os",
        "assert f(1",
        "",
        17,
        None,
    ],
)
def test_a_test_outside_the_language_is_dropped_and_the_question_stays(test):
    loaded = problem_files.FORMAT.read([OWN_ROW | {"tests": [test, "assert f(2) == 4"]}])
    assert [problem.golden_tests for problem in loaded.problems] == [("assert f(2) == 4",)]
    assert [dropped.id for dropped in loaded.dropped] == ["mine/1"]


def test_no_format_hides_another():
    for known in FORMATS:
        assert find_format([{}, dict.fromkeys(known.fields)]) is known


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.json", None, "no such file"),
        ("notes.txt", b"hello", "unknown kind of file; known kinds: .json, .jsonl, .jsonl.gz, .parquet"),
        ("bad.json", b"{", "not readable as json: Expecting property name"),
        ("bad.jsonl", b"\xff\xfe", "not readable as jsonl: 'utf-8' codec can't decode"),
        ("lists.jsonl", b"[1]\n[2]", "not readable as jsonl: Extra data"),
        ("list.json", b"[1, 2]", "no row is an object with fields"),
        ("bad.parquet", b"PAR?", "not readable as parquet"),
        ("bad.jsonl.gz", b"plain", "not readable as gz"),
        ("empty.jsonl", b"", "the file is empty"),
        ("other.jsonl", b'{"a": 1, "b": 2}', "fields a, b are of no known format: KodCode (question, "),
    ],
)
def test_an_unreadable_source_is_one_clear_line(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError) as raised:
        data_pipeline.load(str(path))
    assert str(raised.value).startswith(f"{path}: {message}")
    assert "\n" not in str(raised.value)


def problems_of(solutions: Sequence[str]) -> tuple[Problem, ...]:
    return tuple(Problem(str(i), "?", solution, "f", ()) for i, solution in enumerate(solutions))


def test_the_share_that_is_held_out_is_a_share_of_the_solutions_and_what_is_not_held_out_is_trained_on():
    problems = problems_of([f"def f():\n    return {number // 2}" for number in range(8000)])  # each solution twice
    for share in (0.0, 0.1, 0.5):
        train, heldout = hold_out(problems, share)
        assert sorted((*train, *heldout), key=lambda p: int(p.id)) == list(problems)
        assert not {p.solution for p in train} & {p.solution for p in heldout}
        # of 4,000 solutions, by a binomial distribution; five standard deviations
        assert len(heldout) / 2 == pytest.approx(4000 * share, abs=5 * (4000 * share * (1 - share)) ** 0.5)
    assert set(hold_out(problems, 0.1)[1]) < set(hold_out(problems, 0.5)[1])


@pytest.mark.parametrize(
    ("tests", "name"),
    [
        ("assert deep([1]) == 1\nassert deep(wrap(2)) == 2", "deep"),
        ("from math import isclose\nx = wrap(1)\nassert isclose(deep(x), 1)", "deep"),
        ("def test_a():\n    def own(y):\n        return y\n    assert own(deep(1)) == deep(sorted([1])[0])", "deep"),
        ("from solution import Tree\nt = Tree(3)\nt.add(4)\nassert t.sum() == 7", "Tree"),
        ("class T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(deep(wrap(1)), 1)", "deep"),
        ("assert deep(1) == flat(1)", None),
        ("assert len([1]) == 1", None),
    ],
)
def test_tests_tell_which_function_they_are_about(tests, name):
    assert function_under_test(ast.parse(tests).body) == name


def test_of_functions_that_as_many_tests_are_about_the_one_that_uses_the_other_is_asked_for(tmp_path):
    row = {"question_id": "k", "question": "Count even numbers.", "test_info": []}
    row["solution"] = "def even(n):\n    return n % 2 == 0\ndef evens(xs):\n    return sum(map(even, xs))"
    row["test"] = "def test():\n    assert even(3) == False\n    assert evens([1, 2]) == 1"
    for stated, expected in (([], "evens"), ([{"function_name": "even"}], "even")):
        (problem,) = read(write_jsonl(tmp_path / "rows.jsonl", [row | {"test_info": stated}])).problems
        assert problem.entry_point == expected
        assert f"def {expected}(" in problem.question  # which mentions neither, or only a longer name


@pytest.mark.parametrize("at_most", [0, 1, 30])
def test_what_exceeds_the_number_held_out_is_trained_on(at_most):
    problems = problems_of([f"def f():\n    return {number}" for number in range(1000)])
    train, heldout = hold_out(problems, 0.2, at_most)
    assert (len(train), len(heldout)) == (1000 - at_most, at_most)
    assert set(heldout) <= set(hold_out(problems, 0.2)[1])
    assert hold_out(problems[::-1], 0.2, at_most)[1] == heldout[::-1]  # in any order of the file


def test_files_and_prepared_datasets_are_read_from_a_bucket(tmp_path, monkeypatch):
    own = write_jsonl(tmp_path / "own.jsonl", [OWN_ROW])
    prepared = tfds_files.write(tmp_path, "kodcode", micro.problems("train", 5, seed=0))
    with running_emulator() as emulator:
        for name, value in emulator.environment.items():
            monkeypatch.setenv(name, value)
        for file in (own, *prepared.iterdir()):
            emulator.put("bucket", f"data/{file.relative_to(tmp_path)}", file.read_bytes())
        assert data_pipeline.load("gs://bucket/data/own.jsonl") == data_pipeline.load(str(own))
        assert data_pipeline.load("gs://bucket/data/kodcode") == data_pipeline.load(str(prepared))
        with pytest.raises(ValueError, match=r"^gs://bucket/none\.jsonl: no such file$"):
            data_pipeline.load("gs://bucket/none.jsonl")
        upload = "codea1 data prepare kodcode && gcloud storage rsync --recursive data/kodcode gs://bucket/kodcode"
        with pytest.raises(ValueError, match=f"^gs://bucket/kodcode does not exist; create it: {upload}$"):
            data_pipeline.load("gs://bucket/kodcode")
        emulator.private = True
        monkeypatch.delenv("GOOGLE_AUTH_TOKEN_FOR_TESTING")
        with pytest.raises(ValueError, match=r"^gs://bucket/data/own\.jsonl cannot be read: .*access"):
            data_pipeline.load("gs://bucket/data/own.jsonl")


def test_kodcode_rows_are_read_whole_and_their_golden_tests_hold(rows):
    loaded = read(rows.kodcode)
    assert (len(loaded.problems), len(loaded.refused)) in [(13, 1), (193, 10)]  # ours, and the real ones
    assert {refusal.reason for refusal in loaded.refused} == {"no test of the form assert call == value"}
    of_nodes = [problem for problem in loaded.problems if problem.node_classes]
    for problem in loaded.problems:
        for line in () if problem in of_nodes else problem.golden_tests:
            namespace: dict = {}
            exec(problem.solution, namespace)
            exec(line, namespace)
    with SandboxPool(workers=1) as judge:  # Python alone cannot call these: their tests write nodes as lists
        assert failures(of_nodes, judge) == [None] * len(of_nodes)
