"""The judge's own face: programs and tests in, verdicts out; what is not a test is refused, never left out."""

import re
from collections.abc import Iterator

import pytest

from codea1_judge import Judge, Limits, Problem, cli, load
from sandbox import Task

DOUBLE = "def double(x):\n    return x + x"


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(workers=2, limits=Limits(call_seconds=0.5, program_seconds=4)) as made:
        yield made


def test_a_function_is_judged_by_asserts(judge: Judge):
    tests = ["assert double(2) == 4", "assert [1, 1] == double([1])", "assert double('a') == 'a'"]
    verdicts = judge.judge(DOUBLE, tests)
    assert [verdict.passed for verdict in verdicts.tests] == [True, True, False]
    assert (verdicts.passed, verdicts.share) == (False, pytest.approx(2 / 3))
    assert judge.judge(DOUBLE, tests[:2]).passed


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("def f(x):\n    raise ValueError", "raised"),
        ("def f(x):\n    while True: pass", "timed out"),
        ("import os\nprint('passed')\nos._exit(0)", "crashed"),
        ("class Liar:\n    def __eq__(self, other): return True\ndef f(x): return Liar()", "not plain data"),
        ("def f(x) return", "raised"),
    ],
)
def test_what_does_not_pass_is_told_apart(judge: Judge, program: str, status: str):
    verdicts = judge.judge(program, ["assert f(1) == 1"])
    assert [verdict.status for verdict in verdicts.tests] == [status] and not verdicts.passed


def test_stated_answers_may_be_expressions_and_have_tolerances(judge: Judge):
    program = "def f(n): return [0.1 + 0.2] * n"
    tests = ["assert f(2) == [0.3] * 2", "assert f(1)[0] == pytest.approx(0.31, abs=0.02)", "assert f(1) == [0.31]"]
    assert [verdict.passed for verdict in judge.judge(program, tests).tests] == [True, True, False]


@pytest.mark.parametrize(
    ("test", "passes"),
    [
        ("abs(f(102) - 100) < 5", True),
        ("abs(f(102.0) - 100.0) <= 2", True),
        ("abs(f(102) - 100) < 2", False),
        ("abs(f(3) - 3) < 0", False),
        ("abs(f(3.25) - 3) < 0.5", True),
        ("abs(f(3.75) - 3) < 0.5", False),
    ],
)
def test_a_distance_is_what_python_says(judge: Judge, test: str, passes: bool):
    assert judge.judge("def f(x): return x", [f"assert {test}"]).passed is passes


def test_a_script_is_judged_by_what_it_prints(judge: Judge):
    verdicts = judge.judge("print(int(input()) * 2.0)", [("2", "4"), ("3", "6.0\n"), ("4", "9"), ("x", "x")])
    assert [verdict.status for verdict in verdicts.tests] == ["passed", "passed", "failed", "raised"]


def test_the_entry_point_is_what_the_tests_call_unless_it_is_named(judge: Judge):
    assert judge.judge("def max(x): return x", ["assert max(3) == 3"], entry_point="max").passed
    assert judge.judge(DOUBLE, ["assert sorted(double([1])) == [1, 1]"]).passed


def test_many_programs_are_judged_at_once_and_limits_may_be_a_programs_own(judge: Judge):
    slow = "import time\ndef double(x):\n    while time.process_time() < 0.7: pass\n    return x + x"
    tests = ["assert double(2) == 4"]
    pending = [
        judge.submit(DOUBLE, tests),
        judge.submit(slow, tests),
        judge.submit(slow, tests, "", Limits(call_seconds=5)),
    ]
    assert [future.result().passed for future in pending] == [True, False, True]


def test_problems_of_files_are_judged_by_their_golden_tests(judge: Judge, tmp_path):
    problems = load("docs/problems.jsonl").problems
    assert {problem.task for problem in problems} == {Task.FUNCTION}
    for problem in problems:
        assert judge.judge(problem.solution, problem).passed
        assert not judge.judge("def nothing(): pass", problem).passed


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        ([], "no tests were given"),
        (["assert f(1) == 1", "assert f.__name__ == 'f'"], "test 2 of 2: "),
        (["assert f(1) == g(1)"], "which function they are about"),
        (["assert f(1) == g(1)", "assert f(1) == 2"], "test 1 of 2: "),
        (["assert f(1) == 1 / 0"], "1 / 0 states no value"),
        (["assert 1 == 1"], "which function they are about"),
        (["assert f(1 == 1"], "does not parse"),
        (["assert f(1) == 1", ("1", "1")], "asserts, or pairs"),
        ([("1", "1", "1")], "'output': TEXT}, not ('1', '1', '1')"),
        ([{"stdin": "1", "stdout": "1"}], "'output': TEXT}, not {'stdin': '1', 'stdout': '1'}"),
        ([{"input": "1", "output": 1}], "not {'input': '1', 'output': 1}"),
        ([{"input": "1", "output": "1", "weight": 2}], "not {'input': '1', 'output': '1', 'weight': 2}"),
        ([["assert f(1) == 1"]], "not ['assert f(1) == 1']"),
        ([["assert f(1) == 1", "assert f(2) == 2"]], "not ['assert f(1) == 1', 'assert f(2) == 2']"),
        ([None], "not None"),
        ("assert f(1) == 1", "tests are a list or a Problem, not str"),
        ({"input": ["1"], "output": ["1"]}, "tests are a list or a Problem, not dict"),
    ],
)
def test_what_is_not_a_test_is_refused(judge: Judge, tests: list, reason: str):
    with pytest.raises(ValueError, match=re.escape(reason)):
        judge.judge("def f(x): return x", tests)


def test_a_problem_is_judged_by_its_checker_its_imports_and_its_own_check(judge: Judge):
    above = "def check(given, output, expected): return int(output) > int(given)"
    greater = Problem("p", "", "", "", ('["1\\n", "2"]',), task=Task.STREAM, checker=above)
    assert [judge.judge(f"print({n})", greater).passed for n in (0, 2, 3)] == [False, True, True]
    deque = "from collections import deque\ndef last(d: deque): ..."
    typed = Problem("q", deque, "", "last", ("assert last([1, 2]) == 2",))
    assert judge.judge("def last(d: deque):\n    return deque(d).pop()", typed).passed
    checked = Problem("r", "", "", "f", check="def check(candidate):\n    assert candidate(2) > 3")
    assert [judge.judge(f"def f(x): return {n}", checked).passed for n in (3, 4)] == [False, True]


def test_rows_of_a_program_are_tests_as_pairs_are(judge: Judge):
    rows = [{"input": "2 5\n", "output": "7\n"}, {"input": "1 1\n", "output": "3"}]
    verdicts = judge.judge("print(sum(map(int, input().split())))", rows)
    assert [verdict.passed for verdict in verdicts.tests] == [True, False]


def test_what_is_put_in_reaches_the_program_as_it_stands(judge: Judge):
    for given in ("3\n\n", "x \t \n", "", "a\r\nb", "\n\n1"):
        assert judge.judge("import sys\nprint(ascii(sys.stdin.buffer.read()))", [(given, ascii(given.encode()))]).passed


def test_the_order_of_a_dict_is_its_own(judge: Judge):
    program = "def f(names):\n    return {name: len(name) for name in names}"
    tests = [
        "assert list(f(['bb', 'a'])) == ['bb', 'a']",
        "assert list(f(['bb', 'a'])) == ['a', 'bb']",
        "assert str(f(['b', 'a'])) == \"{'b': 1, 'a': 1}\"",
        "assert tuple(f(['bb', 'a']).values()) == (2, 1)",
        "assert [key for key, _ in f(['b', 'a']).items()] == ['b', 'a']",
        "assert f(['b', 'a']) == {'a': 1, 'b': 1}",
    ]
    assert [verdict.passed for verdict in judge.judge(program, tests).tests] == [True, False, True, True, True, True]


def test_the_command_checks_the_host_and_refuses_in_one_line(capsys, monkeypatch, tmp_path):
    assert cli.main(["check"]) == 0
    assert "ok   jail " in capsys.readouterr().out
    monkeypatch.delenv("CODEA1_SANDBOX_TOKEN", raising=False)
    assert cli.main(["serve", "--workers=1", "--host=0.0.0.0"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("codea1-judge: ") and "needs a token" in err and err.count("\n") == 1
    (empty := tmp_path / "\x1b[2J").touch()
    assert cli.main(["serve", "--token-file", str(empty)]) == 2
    assert "\\x1b[2J holds no token" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--workers=0", "--workers=-1", "--port=99999", "--max-seconds=0", "--max-memory-mb=x"]
)
def test_a_service_that_could_judge_nothing_is_refused_before_it_starts(option, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["serve", option])
    assert ended.value.code == 2
    assert option.partition("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize("workers", [0, -1])
def test_a_judge_without_workers_would_never_answer_and_is_refused(workers):
    with pytest.raises(ValueError, match=f"at least one worker, not {workers}"):
        Judge(workers)
