from pathlib import Path

import pytest
from program_files import read_programs

from sandbox import CheckJob, Limits, SandboxPool

CHECK, UNITTEST, PYTEST, PARAMETRIZED = read_programs(Path(__file__).with_name("checks.txt"))[""].values()
SHORT = Limits(call_seconds=0.2, load_seconds=0.8, program_seconds=1.0, wall_factor=2.5, memory_mb=256)
RIGHT = "def f(x):\n    return x + 1\ndef g(xs):\n    xs.sort()\n"
WRONG = "def f(x):\n    return x + 2 if x == 2 else x + 1\ndef g(xs):\n    return sorted(xs)\n"


@pytest.fixture(params=[False, True], ids=["isolated", "in_process"])
def in_process(request):
    return request.param


def status(pool: SandboxPool, program: str, check: str, in_process: bool = False) -> str:
    (result,) = pool.execute([CheckJob(program, check, "f", SHORT, in_process)])
    return result.verdict.status.value


@pytest.mark.parametrize("check", [CHECK, UNITTEST, PYTEST, "assert f(1) == 2"])
def test_a_right_program_passes_checks_of_every_form(jail, check, in_process):
    assert status(jail, RIGHT, check, in_process) == "passed"


def test_a_wrong_program_fails_and_the_detail_says_why(jail, in_process):
    (result,) = jail.execute([CheckJob(WRONG, CHECK, "f", in_process=in_process)])
    assert not result.passed
    assert result.loaded.status.value == "returned"
    assert (result.verdict.status.value, result.verdict.detail) == (
        "failed",
        "two" if in_process else "two; after f(2) gave 4",
    )
    assert status(jail, WRONG, PYTEST, in_process) == "failed"
    assert status(jail, "def f(x):\n    return x", UNITTEST, in_process) == "failed"


@pytest.mark.parametrize(
    ("program", "check", "detail"),
    [
        (  # as evalplus' checks do
            "def f(xs):\n    xs.sort()\n    return xs[:2]",
            "def equal(out, exp):\n    assert out == exp\ndef check(f):\n    equal(f([3, 1, 2]), [1, 2, 3])",
            "after f([3, 1, 2]) gave [1, 2]; equal(out=[1, 2], exp=[1, 2, 3])",
        ),
        ("def f(x, by=1):\n    return 'a'", "assert f(1, by=2) == 'b'", "after f(1, by=2) gave 'a'"),
        ("def f(x):\n    return print", "assert f(1) is None", None),  # not plain data: said instead
        ("def f(x):\n    return x", "def check(f):\n    assert f(list(range(99))) == 1", "after f([0, 1, 2, 3,"),
        ("def f(x):\n    raise KeyError('k')", "try:\n    f(1)\nexcept KeyError:\n    assert False", "after f(1)"),
        ("def f(x): return 10**5000", "assert f(1) == 2", "after f(1) gave <int>"),
        ("def f(x): return [3, 1]", "r = f(1)\nr.sort()\nassert r == [1, 2]", "after f(1) gave [3, 1]"),
        (  # a name by which Python's own reprlib would choose
            "from collections import namedtuple\ndef f(x): return {'a': (namedtuple('array', 'a')(1), 1.5, {2})}",
            "assert f({}) == 2",
            "after f({}) gave {'a': (<array>, 1.5, {2})}",
        ),
        ("def f(x): return x", "assert False", ""),
    ],
)
def test_a_failed_check_tells_the_last_call_what_it_gave_and_what_was_compared(jail, program, check, detail):
    (result,) = jail.execute([CheckJob(program, check, "f")])
    if detail is None:
        assert result.verdict.status.value == "not plain data"
    elif detail.endswith(","):
        assert result.verdict.detail.startswith(detail) and len(result.verdict.detail) <= 200
    else:
        assert (result.verdict.status.value, result.verdict.detail) == ("failed", detail)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("def f(x) return", "raised"),
        ("while True: pass", "timed out"),
        ("def f(x):\n    while True: pass", "timed out"),
        ("def f(x):\n    return 1 / 0", "raised"),
        ("import os\ndef f(x):\n    os._exit(0)", "crashed"),
        ("def f(x):\n    return [0] * 10**11", "out of memory"),
        ("g = 1", "raised"),
    ],
)
def test_every_end_of_a_checked_program_has_its_status(jail, program, expected, in_process):
    assert status(jail, program, CHECK, in_process) == expected


def test_a_parametrized_test_runs_once_for_each_case(jail, in_process):
    assert status(jail, "def f(x): return x + 1", PARAMETRIZED, in_process) == "passed"
    assert status(jail, "def f(x): return 2", PARAMETRIZED, in_process) == "failed"
    assert status(jail, "def f(x): return x + (x == 1)", PARAMETRIZED, in_process) == "failed"


def test_the_function_may_be_called_check(jail, in_process):
    check = "def check(check):\n    assert check(1) == 2"
    for body, expected in (("x + 1", "passed"), ("x", "failed")):
        job = CheckJob(f"def check(x):\n    return {body}", check, "check", in_process=in_process)
        assert jail.execute([job])[0].verdict.status.value == expected


def test_a_check_may_call_the_programs_other_functions(jail, in_process):
    check = "def check(f):\n    assert helper(1) == 5"
    assert status(jail, "def f(x): return 0\ndef helper(x): return 5", check, in_process) == "passed"


def test_a_check_beside_the_program_uses_its_imports_and_constants(jail):
    program = "import os.path\nimport re as r\nSIZES = [1, 2]\nsum = max\ndef f(x):\n    return x + 1"
    check = "def check(f):\n    assert os.path.basename('a/b') == r.sub('a', 'b', 'a') and sum(SIZES) == 3"
    assert status(jail, program, check, in_process=True) == "passed"
    assert status(jail, program, check) == "raised"


def test_a_constant_that_decides_what_it_equals_is_not_there(jail):
    program = "class All:\n    def __eq__(self, other): return True\nRIGHT = All()\ndef f(x):\n    return 0"
    check = "def check(f):\n    assert f(1) == RIGHT"
    for constant in ("All()", "[All()]", "{1: (All(),)}"):
        assert status(jail, f"{program}\nRIGHT = {constant}", check, in_process=True) == "raised"


def test_a_value_that_is_no_plain_data_has_its_truth_and_no_more(jail):
    program = "import re\ndef f(x):\n    return re.match('a', x)"
    assert status(jail, program, "assert f('a') and not f('b')") == "passed"
    assert status(jail, program, "assert f('a') == True") == "not plain data"


def test_exact_values_cross_between_the_processes(jail):
    check = """
def same(a, b):
    assert type(a) is type(b) and repr(a) == repr(b), (a, b)
def check(f):
    for value in (1, True, 1.0, -0.0, float('inf'), float('nan'), 1e308, 2**70, 10**4000, 1j, None,
                  '', '\\ud800\\x00é', b'\\xff', (), (1, [2]), {1, 2}, frozenset({3}), {(1,): [None], 2: {}}):
        same(f(value), value)
        same(f([value])[0], value)
    assert list(f(iter([1, 2]))) == [1, 2]
"""
    assert status(jail, "def f(x): return x", check) == "passed"


PROGRAMS = read_programs(Path(__file__).with_name("hostile_checked.txt"))
HOSTILE, EQUAL_TO_ANYTHING, ISOLATED_ONLY = (PROGRAMS[name] for name in PROGRAMS if name)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_hostile_program_passes_a_check(jail, name, in_process):
    honest = CheckJob(RIGHT, CHECK, "f")
    hostile, after = jail.execute([CheckJob(HOSTILE[name], CHECK, "f", SHORT, in_process), honest])
    assert not hostile.passed, hostile
    assert after.passed
    assert jail.restarts == 0


@pytest.mark.parametrize(
    "program",
    [
        "import unittest\ndef f(x): raise unittest.SkipTest",
        "def check(candidate): pass\ncheck.__module__ = 'check'\ndef f(x): return 7",
    ],
)
def test_no_program_has_its_unittests_left_out(jail, program, in_process):
    assert status(jail, program, UNITTEST, in_process) == "failed"


@pytest.mark.parametrize(
    ("body", "caught"),
    [
        ("return b'\\xff'.decode()", "UnicodeDecodeError"),
        ("import json; return json.loads('{')", "ValueError, match='Expecting'"),
        ("class Missing(KeyError): pass\n    raise Missing", "LookupError"),
    ],
)
def test_a_check_catches_an_exception_by_its_builtin_class(jail, in_process, body, caught):
    check = f"import pytest\ndef check(f):\n    with pytest.raises({caught}):\n        f(1)"
    assert status(jail, f"def f(x):\n    {body}", check, in_process) == "passed"


@pytest.mark.parametrize("name", EQUAL_TO_ANYTHING)
@pytest.mark.parametrize(
    "comparison",
    ["f(1) == 2", "f(0) == [1, (2, {2: 3})]", "f(0) == [5]", "f(1) == __import__('collections').deque([5])"],
)
def test_no_value_that_equals_anything_passes_a_check(jail, in_process, name, comparison):
    assert status(jail, EQUAL_TO_ANYTHING[name], f"assert {comparison}", in_process) != "passed"


def test_a_value_that_a_library_compares_with_its_own_kind_alone_is_judged_by_the_check(jail):
    """As pandas' tables of texts, which raise NotImplementedError; here a list whose items cannot be had."""
    program = (
        "from collections import UserList\nclass Table(UserList):\n    n, data = 2, property(lambda self: 1 // 0)\n"
    )
    program += "def f(x): return Table.__new__(Table)"
    assert status(jail, program, "assert f(1).n == 2", in_process=True) == "passed"


@pytest.mark.parametrize(
    ("value", "comparison"),
    [
        ("float16('inf')", "f(1) == 70_000 and f(2) == 1e12"),
        ("float16(1000.5)", "f(1) == 1000.3"),
        ("float32('inf')", "f(1) == 10**40"),
        ("complex64('inf')", "f(1) == 1e60"),
        ("int8(-128)", "abs(f(1)) < 5"),
        ("uint8(0)", "f(1) - 1 == 255"),
        ("float16('inf')", "f(1) == __import__('pytest').approx(1e6)"),
        ("array([])", "f(1) == __import__('pytest').approx(0.5)"),
    ],
)
def test_no_number_of_few_bits_and_no_empty_array_passes_for_another(numpy_jail, value, comparison):
    assert status(numpy_jail, f"import numpy\ndef f(x): return numpy.{value}", f"assert {comparison}") == "failed"


def test_a_number_of_numpys_is_one_for_the_check_as_well(numpy_jail):
    program = "import numpy\ndef f(x): return numpy.dtype(x).type(2)"
    check = "for kind in ('f2', 'f4', 'f8', 'i1', 'u8', 'c8'):\n    assert f(kind) == 2 and f(kind).shape == ()"
    assert status(numpy_jail, program, check) == "passed"


@pytest.mark.parametrize(
    "test",
    [
        "async def test_f():\n    assert f(1) == 2",
        "def test_f():\n    assert f(1) == 2\n    yield",
        "async def check(candidate):\n    assert candidate(1) == 2",
        "import functools\n@functools.cache\ndef test_f():\n    assert f(1) == 2",
    ],
)
def test_a_test_whose_body_does_not_run_passes_nothing(jail, in_process, test):
    assert status(jail, "def f(x): return 7", test, in_process) != "passed"


@pytest.mark.parametrize("kind", ["StopIteration", "StopAsyncIteration", "type('S', (StopIteration,), {})"])
def test_no_exception_ends_a_check_early(jail, in_process, kind):
    check = "def check(f):\n    assert all(map(lambda x: f(x) == x + 1, [1, 2]))"
    assert status(jail, f"def f(x): raise {kind}", check, in_process) == "raised"


@pytest.mark.parametrize("name", ISOLATED_ONLY)
def test_a_check_that_runs_isolated_is_out_of_the_programs_reach(jail, name):
    assert status(jail, ISOLATED_ONLY[name], UNITTEST if "unittest" in name else CHECK) == "failed"


LARGE = {  # values of some 60 MB as Python has them, of which a check holds two
    "rows of texts": "[('red', 'green') * 40 + (str(i),) for i in range(70_000)]",
    "rows of numbers": "[[0.5, 1000 + i % 7] * 40 for i in range(70_000)]",
    "a dict": "{i: 'one' for i in range(600_000)}",
    "lists in a list": "[list(range(750_000)), list(range(750_000))]",
}


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
def test_what_the_judge_does_with_a_value_is_no_memory_of_the_programs(jail, value):
    limits = Limits(call_seconds=20.0, program_seconds=60.0, memory_mb=216)
    (result,) = jail.execute([CheckJob(f"def f(): return {value}", f"assert f() == {value}", "f", limits)])
    assert result.passed, result.verdict
