"""Datasets of programs that read standard input: every row of a dataset's shape is a problem, or refused by reason."""

import base64
import json
import os
import pickle
import zlib
from dataclasses import replace
from decimal import Decimal, localcontext

import pyarrow
import pyarrow.parquet
import pytest
from own_rows import fixture_rows
from packed import packed

from data_pipeline import Problem, problem_files, tfds_files
from data_pipeline.benchmark import make_benchmark
from data_pipeline.golden import plain_golden_tests, read_golden_tests
from data_pipeline.prepare import prepare
from data_pipeline.reading import read
from data_pipeline.sources import RECIPES, find_format
from data_pipeline.stream_rows import LONGEST_TEST, MOST_TESTS
from data_pipeline.validate import failures
from data_pipeline.verdicts import own_tests, submit_program
from sandbox import SandboxPool, Task, Tolerance

SUM = "print(sum(map(int, input().split())))"
PYTHON2 = "print sum(map(int, raw_input().split()))"
OWN, CODE_CONTESTS, PLUS, TACO, APPS, DEEPCODER, LIVE, METHOD, FUSION = fixture_rows("programs").values()
LIVE["private_test_cases"] = packed(LIVE["private_test_cases"])
METHOD = LIVE | METHOD | {"private_test_cases": packed(METHOD["private_test_cases"])}


def loaded(*rows):
    row_format = find_format(rows)
    assert row_format is not None
    return row_format.read(rows)


def the_problem(row) -> Problem:
    (problem,) = loaded(row).problems
    return problem


def the_reason(row) -> str:
    (refusal,) = loaded(row).refused
    return refusal.reason


def samples_of(problem):
    return [(test.call, test.stated) for test in read_golden_tests(problem)]


def test_a_row_of_your_own_without_an_entry_point_is_a_program_and_is_written_as_it_was_read(tmp_path):
    function = {"id": "f", "question": "?", "solution": "def f(x):\n    return x", "entry_point": "f", "seconds": 3}
    exact = OWN | {"id": "exact", "question": "An absolute error of 1e-6 is allowed.", "atol": 0, "seconds": 2.5}
    untested = OWN | {"id": "untested", "task": "stream", "tests": []}
    checked = OWN | {"id": "checked", "checker": "def check(given, output, expected):\n    return True\n"}
    problems = loaded(OWN, function, exact, untested, checked).problems
    assert [problem.task for problem in problems] == [Task.STREAM, Task.FUNCTION, *[Task.STREAM] * 3]
    assert [problem.seconds for problem in problems] == [0, 3, 2.5, 0, 0]
    assert problems[-1].checker == checked["checker"]
    assert samples_of(problems[0]) == [("1 2\n", "3\n")]
    assert problems[2].tolerance == problems[0].tolerance
    problem_files.write(tmp_path / "again.jsonl", problems)
    assert read(tmp_path / "again.jsonl").problems == problems


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tests": ["assert f(1) == 2"]}, "no entry_point, which a function needs; tests {input, output} would make"),
        ({"tests": []}, "no entry_point, which a function needs"),
        (
            {"task": "stream", "entry_point": "f"},
            "a program that reads standard input (task stream) has no entry_point",
        ),
        ({"task": "script"}, "task is 'script'; known tasks: function, class, stream"),
        ({"solution": PYTHON2}, "the solution does not parse"),
        ({"seconds": -1}, "-1 seconds for a test; allowed: 0 to 600"),
        ({"seconds": "2"}, "seconds is a text, not a number"),
        ({"tests": {"input": ""}}, "tests is not a list"),
        ({"solution": ""}, "no solution"),
        ({"checker": "def check(output):\n    return True"}, "the checker defines no check(given, output, expected)"),
        ({"checker": "check("}, "the checker does not parse"),
    ],
)
def test_a_bad_row_of_a_program_is_refused_with_the_reason(change, reason):
    assert the_reason(OWN | change).startswith(reason)


def test_a_bad_test_of_a_program_is_left_out_and_named():
    bad = ("assert f(1) == 1", {"input": "1"}, {"input": {}, "output": "1"})
    found = loaded(OWN | {"tests": [*bad, *OWN["tests"]]})
    assert samples_of(found.problems[0]) == [("1 2\n", "3\n")]
    reasons = [each.reason.rpartition(": ")[2] for each in found.dropped]
    assert reasons == ["no input", "no output", "input is of type dict, not text"]


def test_a_problem_without_a_solution_in_python_3_can_be_evaluated_on():
    assert the_problem(CODE_CONTESTS | {"solutions": {"language": [2], "solution": ["x"]}}).solution == ""


def test_code_contests_takes_the_first_python_3_and_the_judges_own_tests_first(tmp_path):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([CODE_CONTESTS]), tmp_path / "rows.parquet")
    (problem,) = read(tmp_path / "rows.parquet").problems
    assert problem == the_problem(CODE_CONTESTS)
    assert (problem.id, problem.solution, problem.seconds) == ("1_A. Sum", SUM, 2.5)
    assert samples_of(problem) == [("4 5\r\n", "9"), ("\n", "0"), ("6 7\n", "13\n"), ("1 2\n", "3\n")]


def test_code_contests_plus_has_the_first_python3_its_tests_and_its_milliseconds(tmp_path):
    problem = the_problem(PLUS)
    assert (problem.id, problem.source, problem.solution) == ("Codeforces/1_A", "code_contests_plus", SUM)
    assert samples_of(problem) == [("4 5\r\n", "9"), ("1 2\n", "3\n")]
    assert (problem.seconds, problem.memory_mb) == (2.5, 256)
    assert RECIPES["code_contests_plus"].name == problem.source
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([PLUS]), tmp_path / "rows.parquet")
    assert read(tmp_path / "rows.parquet").problems == (problem,)


@pytest.mark.parametrize(
    ("row", "change", "reason"),
    [
        (CODE_CONTESTS, {"solutions": {"language": [3], "solution": [PYTHON2]}}, "no solution of 1 is Python 3"),
        (CODE_CONTESTS, {"input_file": "input.txt"}, "input_file is 'input.txt': it uses a file, not standard input"),
        (
            CODE_CONTESTS,
            {"public_tests": {"input": ["1"], "output": []}},
            "inputs and outputs of tests are not lists of one",
        ),
        (CODE_CONTESTS, {"description": "If there are many answers, print any."}, "it accepts several answers"),
        (PLUS, {"test_cases": None}, "it has no tests"),
        (PLUS, {"correct_submissions": [{"code": PYTHON2, "language": "py3"}]}, "no solution of 1 is Python 3"),
        (TACO, {"input_output": "{"}, "input_output is not JSON"),
        (TACO, {"input_output": "{}"}, "it has no tests"),
        (
            TACO,
            {"input_output": json.dumps({"inputs": ["1" * LONGEST_TEST], "outputs": ["1"]})},
            "all of its tests are",
        ),
        (APPS, {"solutions": '["print(1)"]'}, "the solution defines no function add"),
        (APPS, {"solutions": "[]"}, "the solution defines no function add"),
        (DEEPCODER, {"tests": '[{"type": "function_call", "input": []}]'}, "its tests are of type function_call"),
        (
            LIVE,
            {"public_test_cases": '[{"testtype": "functional"}]'},
            "its tests are of type functional, not of standard",
        ),
        (METHOD, {"metadata": "{}"}, "no func_name"),
        (
            METHOD,
            {"public_test_cases": '[{"testtype": "functional", "input": "x", "output": "1"}]'},
            "an argument or a",
        ),
        (LIVE, {"contest_date": "soon"}, "contest_date is 'soon', not a date such as 2024-08-31"),
        (FUSION, {"test": "f()"}, "tests that are not JSON cannot be unpacked"),
        (FUSION, {"test": "assert 1 == 1"}, "neither labels.entry_point nor its tests tell which"),
    ],
)
def test_what_a_dataset_cannot_use_is_refused_with_the_reason(row, change, reason):
    assert the_reason(row | change).startswith(reason)


def test_taco_joins_lines_and_takes_the_time_limit():
    problem = the_problem(TACO)
    assert (problem.solution, problem.seconds, problem.source) == (SUM, 2.0, "taco")
    assert samples_of(problem) == [("1 2\n", "3\n"), ("3 4\n", "7")]
    row_format = find_format([TACO])
    assert row_format is not None
    assert len(row_format.read([TACO], ["medium_hard"]).problems) == 1
    assert the_problem(TACO | {"time_limit": "None"}).seconds == 0


def test_a_function_of_apps_has_asserts_and_its_wrapped_outputs_are_opened():
    problem = the_problem(APPS)
    assert (problem.id, problem.task, problem.entry_point) == ("APPS/7", Task.FUNCTION, "add")
    assert problem.golden_tests == ("assert add(1, 2) == 3", "assert add('a', 'b') == 'ab'")
    assert problem.question == "Add.\n\ndef add(a, b):"
    plain = {"fn_name": "add", "inputs": [[[1], [2]], [[], []]], "outputs": [[1, 2], []]}
    assert the_problem(APPS | {"input_output": plain}).golden_tests[0] == "assert add([1], [2]) == [1, 2]"


def test_each_part_of_deepcoder_is_read():
    taco = DEEPCODER | {"tests": json.dumps({"inputs": ["1 2\n"], "outputs": ["3\n"]})}
    live = {"problem": "?", "tests": json.dumps([{"testtype": "stdin", "input": "1 2\n", "output": "3\n"}])}
    for row in (DEEPCODER, taco, live):
        assert samples_of(the_problem(row)) == [("1 2\n", "3\n")]
    assert [the_problem(row).solution for row in (DEEPCODER, taco, live)] == [SUM, SUM, ""]


def test_live_code_bench_has_all_tests_the_date_and_no_solution(tmp_path):
    problem = the_problem(LIVE)
    assert (problem.id, problem.date, problem.solution) == ("LCB/abc301_a", "2023-05-13", "")
    assert samples_of(problem) == [("1 2\n", "3\n"), ("3 4\n", "7\n")]
    many = json.dumps([{"input": f"{i}", "output": f"{i}", "testtype": "stdin"} for i in range(99)])
    for private in (many, packed(many)):
        assert len(samples_of(the_problem(LIVE | {"private_test_cases": private}))) == 100
    assert tfds_files.read(tfds_files.write(tmp_path, "lcb", [problem])) == (problem,)


class Attack:
    def __reduce__(self):
        return os.mkdir, ("made-by-a-pickle",)


@pytest.mark.parametrize("value", [Attack(), {"input_output": Attack()}, b"text", ["text"], 5])
def test_packed_tests_can_run_nothing_and_hold_nothing_but_text(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert the_reason(LIVE | {"private_test_cases": packed(value)})
    assert the_reason(FUSION | {"test": packed(value)})
    assert not list(tmp_path.iterdir())


def test_a_damaged_pack_is_refused():
    whole = packed(json.dumps([]))
    cut = base64.b64encode(zlib.compress(pickle.dumps("[]")[:-3])).decode()
    for text in (whole[:-8], whole + "!", cut, base64.b64encode(b"text").decode()):
        assert the_reason(LIVE | {"private_test_cases": text}).startswith("tests that are not JSON cannot be unpacked")


def test_the_samples_of_sandbox_fusion_are_read_in_both_forms():
    inside = {"inputs": ["1 2\n"], "outputs": ["3\n"], "fn_name": None}
    compressed = FUSION | {"test": packed({"input_output": json.dumps(inside)}), "labels": '{"task_id": "b/1"}'}
    problems = loaded(FUSION, compressed).problems
    assert [problem.id for problem in problems] == ["a3", "b/1"]
    assert [samples_of(problem) for problem in problems] == [[("1 2", "3\n")], [("1 2\n", "3\n")]]
    assert {problem.solution for problem in problems} == {""}


def test_a_method_of_livecodebench_is_asked_for_whatever_placeholder_stands_for_its_solution():
    inside = {"inputs": ["[1, 2]\n3", "[]\n0"], "outputs": ["[4, 5]", "[]"], "fn_name": "addAll"}
    content = f"Add y to each.\n{METHOD['starter_code']}"
    row = FUSION | {"content": content, "canonical_solution": "import sys; sys.exit(0)"}
    problem, original = (
        the_problem(each) for each in (row | {"test": packed({"input_output": json.dumps(inside)})}, METHOD)
    )
    assert (problem.check, problem.preamble, problem.solution) == (original.check, original.preamble, "")
    right = (
        "class Solution:\n    def addAll(self, xs: List[int], y: int) -> List[int]:\n        return [x + y for x in xs]"
    )
    with SandboxPool(workers=1) as judge:
        assert make_benchmark([problem], judge).problems == (problem,)
        checks = [submit_program(judge, problem, each, None) for each in (right, right.replace("x + y", "x"))]
        assert [check.result().passed for check in checks] == [True, False]
    listed = inside | {"inputs": [[[1, 2], 3], [[], 0]]}
    assert "input" in the_reason(row | {"test": packed({"input_output": json.dumps(listed)})})


def test_the_samples_of_sandbox_fusion_that_check_functions_are_judged_by_their_checks():
    head, body = "def inc(x):\n", "    return x + 1\n"
    named, setup = {"entry_point": "inc"}, {"test_setup_code": "k = 1"}
    check, asserts = "def check(candidate):\n    assert candidate(1) == 2", ["assert inc(k) == 2", "assert inc(2) == 3"]
    rows = [
        {"id": 1, "content": head, "canonical_solution": body, "labels": json.dumps(named), "test": check},
        {"id": 2, "content": "?", "canonical_solution": f"{head}\r\n{body}", "labels": setup, "test_list": asserts},
        {"id": 3, "content": "?", "labels": "{}", "test": "assert len(str(inc(9))) == 2"},
    ]
    problems = loaded(*rows).problems
    assert [problem.entry_point for problem in problems] == ["inc"] * 3
    assert [bool(problem.solution) for problem in problems] == [True, True, False]
    with SandboxPool(workers=1) as judge:
        assert make_benchmark(problems, judge).problems == problems
        for program, passed in ((head + body, True), (head + "    return x", False)):
            checks = [submit_program(judge, problem, program, None) for problem in problems]
            assert [check.result().passed for check in checks] == [passed] * 3


def test_a_set_to_train_on_keeps_the_first_tests_that_are_short():
    inputs = ["1" * LONGEST_TEST, *(f"{i}\n" for i in range(2 * MOST_TESTS))]
    row = TACO | {"input_output": {"inputs": inputs, "outputs": inputs}}
    assert [given for given, _ in samples_of(the_problem(row))] == inputs[1 : MOST_TESTS + 1]


def test_an_error_that_the_question_states_is_the_tolerance_of_its_tests():
    asked = TACO | {"question": "Print the mean with an absolute or relative error of at most 10^{-6}."}
    assert the_problem(asked).tolerance == Tolerance(1e-6, 1e-6)
    assert {test.tolerance for test in read_golden_tests(the_problem(asked))} == {Tolerance(1e-6, 1e-6)}


def test_programs_are_validated_in_the_jail_and_those_without_a_solution_only_refused():
    good = [the_problem(row) for row in (OWN, TACO, APPS, DEEPCODER, CODE_CONTESTS, PLUS)]
    wrong = replace(good[0], id="wrong", solution="print(4)")
    with SandboxPool(workers=1, backend="process") as judge:
        reasons = failures([*good, wrong, the_problem(LIVE)], judge)
    assert reasons[:6] == [None] * 6
    assert reasons[6] is not None and reasons[6].startswith("the solution fails tests (1 of 1)")
    assert reasons[7] == "it has no solution: it can only be evaluated on"


def test_programs_are_prepared_and_every_row_is_accounted_for(tmp_path):
    rows = [TACO, TACO | {"question": "Again: print the sum."}, TACO | {"question": "Print the product of both."}]
    rows[1]["solutions"] = json.dumps(["import numpy\n" + SUM])
    rows[2]["input_output"] = json.dumps({"inputs": ["3 4"], "outputs": ["12"]})
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = replace(RECIPES["taco"], source=str(tmp_path / "rows.jsonl"), against=())
    path, manifest = prepare(recipe, tmp_path, lambda packages: SandboxPool(workers=1, preload=packages))
    assert {problem.question for problem in tfds_files.read(path)} == {row["question"] for row in rows[:2]}
    assert [refusal.reason.partition(":")[0] for refusal in manifest.refused] == ["the solution fails tests (1 of 1)"]


def test_every_real_row_of_a_program_is_read(real_rows):
    rows = real_rows.kodcode.parent / "rows"
    contests, live = read(rows / "code_contests.jsonl"), read(rows / "live_code_bench.jsonl")
    assert [len(each.problems) for each in (contests, live)] == [10, 2]
    assert contests.refused == live.refused == ()
    assert sum(len(problem.golden_tests) for problem in contests.problems) == 1064
    assert [len(problem.golden_tests) for problem in live.problems] == [5, 15]
    assert {problem.solution for problem in (*contests.problems, *live.problems)} == {""}
    functions = ("bigcodebench", "evoeval", "mbpp", "mhpp", "oj_asserts", "shadow_humaneval")
    found = {name: read(rows / f"{name}.jsonl") for name in functions}
    assert [len(each.problems) for each in found.values()] == [10, 6, 10, 10, 10, 10]
    assert not any(each.refused for each in found.values())
    with SandboxPool(workers=2, preload=("numpy",)) as judge:
        sound = {name: len(make_benchmark(found[name].problems, judge).problems) for name in functions[1:]}
    # Three of the solutions do not define what their tests call, or raise.
    assert sound == {"evoeval": 6, "mbpp": 10, "mhpp": 10, "oj_asserts": 10, "shadow_humaneval": 7}


def test_a_method_of_solution_is_a_class_whose_tests_call_it():
    solution = "class Solution:\n    def add(self, a: int, b: int) -> int:\n        return a + b\n"
    (problem,) = find_format([APPS]).read([APPS | {"solutions": json.dumps([solution])}]).problems
    assert (problem.task, problem.entry_point) == (Task.CLASS, "Solution")
    assert "def add(self, a: int, b: int) -> int" in problem.question
    assert all(line.startswith("assert Solution().add(") for line in plain_golden_tests(problem))
    with SandboxPool(workers=1) as judge:
        assert failures([problem], judge) == [None]


def test_your_own_row_of_a_class(tmp_path):
    row = {
        "id": "stack",
        "question": "A Stack with push(x) and pop().",
        "solution": "class Stack(list):\n    push = list.append\n",
        "entry_point": "Stack",
        "tests": ["s = Stack()\ns.push(1)\nassert s.pop() == 1", "assert Stack()[0] == 1", "assert 1 == 1", "s ="],
    }
    loaded = problem_files.FORMAT.read([row])
    (problem,) = loaded.problems
    assert plain_golden_tests(problem) == ("made = Stack()\nmade.push(1)\nassert made.pop() == 1",)
    assert [drop.reason.rpartition(": ")[2] for drop in loaded.dropped[:2]] == [
        "it has 0 asserts on an object of Stack that can be read, where a test has one"
    ] * 2
    problem_files.write(tmp_path / "mine.jsonl", [problem])
    assert read(tmp_path / "mine.jsonl").problems == (problem,)


def test_a_solution_with_another_right_answer_is_kept_by_its_checker():
    row = {
        "id": "split",
        "question": "Two numbers that add up to n.",
        "solution": "n = int(input())\nprint(n, 0)",
        "tests": [{"input": "7", "output": "3 4"}],
        "checker": "def check(given, output, expected):\n    return sum(map(int, output.split())) == int(given)",
    }
    (checked,) = problem_files.FORMAT.read([row]).problems
    (unchecked,) = problem_files.FORMAT.read([{**row, "checker": None}]).problems
    with SandboxPool(workers=1) as judge:
        right, wrong = failures([checked, unchecked], judge)
    assert right is None and wrong is not None


def test_a_key_that_is_all_but_one_that_is_missing_is_refused_and_others_are_ones_own():
    row = {"id": "a", "question": "Write f(x).", "solution": "def f(x):\n    return x\n", "entry_point": "f"}
    misspelt = problem_files.FORMAT.read([row | {"test": ["assert f(1) == 1"]}])
    assert [refusal.reason for refusal in misspelt.refused] == ["unknown key test; did you mean tests?"]
    assert problem_files.FORMAT.read([row | {"test": 1, "tests": [], "source": "me", "level": 3}]).refused == ()


def test_live_code_bench_compares_integers_as_long_as_its_scorer_does():
    with localcontext(prec=10_000):
        big = str(Decimal(7) ** 9_999)  # of 8,451 digits
    printed = [{"input": "9999\n", "output": big, "testtype": "stdin"}]
    returned = [{"input": "9999", "output": big, "testtype": "functional"}]
    script = the_problem(LIVE | {"public_test_cases": json.dumps(printed), "private_test_cases": "[]"})
    method = the_problem(METHOD | {"public_test_cases": json.dumps(returned), "private_test_cases": "[]"})
    power = "class Solution:\n    def {name}(self, n): return 7 ** n".format(
        name=json.loads(METHOD["metadata"])["func_name"]
    )
    with SandboxPool(workers=1) as judge:
        for problem, program in ((script, "print(7 ** int(input()))"), (method, power)):
            programs = (program, program.replace("7 **", "1 + 7 **"))
            verdicts = [submit_program(judge, problem, each, own_tests(judge, problem)).result() for each in programs]
            assert [verdict.passed for verdict in verdicts] == [True, False]


def test_integers_that_python_does_not_read_cost_the_row_of_a_function_their_test_alone():
    tests = {"fn_name": "f", "inputs": [[1], [2]], "outputs": [2, "BIG"]}
    text = json.dumps(tests).replace('"BIG"', "9" * 6_000)
    problem = the_problem(APPS | {"input_output": text, "solutions": json.dumps(["def f(x): return 2 * x"])})
    assert problem.golden_tests == ("assert f(1) == 2",)


def test_a_program_may_use_as_much_memory_as_its_row_states():
    rows = [
        {
            "id": "a",
            "question": "?",
            "solution": "print(len(bytes(700 << 20)))",
            "tests": [{"input": "", "output": 700 << 20}],
        }
    ]
    with SandboxPool(workers=1) as judge:
        for memory_mb, passes in ((0, False), (2_000, True)):
            (problem,) = problem_files.FORMAT.read([row | {"memory_mb": memory_mb} for row in rows]).problems
            assert submit_program(judge, problem, problem.solution, own_tests(judge, problem)).result().passed is passes
