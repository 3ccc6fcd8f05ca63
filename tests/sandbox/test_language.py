import ast
import marshal

import pytest

from sandbox.grammar import RETURNED, OutsideLanguage
from sandbox.language import ReadCall, Rejected, SuiteTest, parse_test, read_call

BEYOND_FLOATS = "f(" + "9" * 400 + " + 1j)"


def read(text: str, entry_point: str = "f", **bindings: str) -> SuiteTest | Rejected:
    bound = {name: ast.parse(expression, mode="eval").body for name, expression in bindings.items()}
    return parse_test(ast.parse(text).body[0], entry_point, bound)


@pytest.mark.parametrize(
    ("text", "call", "stated"),
    [
        ("assert f(1, [2],k='a')==3", "f(1, [2], k='a')", "3"),
        ("assert f(1) is True, 'message'", "f(1)", "True"),
        ("assert f() is None", "f()", "None"),
        ("assert sorted(f(x=(1, 2))) == [1, 2]", "sorted(f(x=(1, 2)))", "[1, 2]"),
        ("assert round(f(1.5), 3) == 2 ** 3", "round(f(1.5), 3)", "2 ** 3"),
        ("assert sorted(f(1)['a'], reverse=True) == []", "sorted(f(1)['a'], reverse=True)", "[]"),
        ("assert (f(1) == 2) == True", "f(1)", "2"),
        ("assert (f(1) is None) is True", "f(1)", "None"),
        ("assert f([i * i for i in range(3) if i]) == 1", "f([i * i for i in range(3) if i])", "1"),
        ("assert f('a b'.split()) == {k: 1 for k in 'ab'}", "f('a b'.split())", "{k: 1 for k in 'ab'}"),
        ("assert f(*[1], k=2)[0] == 1", "f(*[1], k=2)[0]", "1"),
        ("assert f(list(map(str, [1]))) == 1", "f(list(map(str, [1])))", "1"),
        ("assert f(max(['a'], key=len)) == 1", "f(max(['a'], key=len))", "1"),
        ("assert f(isinstance(1, (int, str))) == 1", "f(isinstance(1, (int, str)))", "1"),
        ("assert 3 == f(3)", "f(3)", "3"),
        ("assert [1, 2] == sorted(f(3))", "sorted(f(3))", "[1, 2]"),
        ("assert (3 == f(3)) == True", "f(3)", "3"),
    ],
)
def test_a_comparison_of_one_call_with_an_answer_is_a_test(text, call, stated):
    assert read(text) == SuiteTest(call, stated)


def test_a_bare_argument_is_replaced_by_the_expression_bound_to_it():
    assert read("assert f(a, k=b) == 1", a="[1, 2]", b="'x'") == SuiteTest("f([1, 2], k='x')", "1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1", "not an assert"),
        ("assert f(1)", "form"),
        ("assert f(1) == 2 == 2", "form"),
        ("assert f(1) != 2", "comparison"),
        ("assert (f(1) == 2) == False", "around the call"),
        ("assert (f(1) < 2) == True", "around the call"),
        ("assert (f('a b') is 'a b') == True", "is, except with"),
        ("assert f('a' is 'b') == True", "is, except with"),
        ("assert bool(f(1)) == True", "around the call"),
        ("assert (f(1) in [1]) == True", "around the call"),
        ("assert f(1) + 0 == 1", "around the call"),
        ("assert f(1)[:0] == []", "around the call"),
        ("assert round(f(1), -9) == 0", "around the call"),
        ("assert [f(1), 7][1] == 7", "around the call"),
        ("assert [1, 2][f(1)] == 7", "around the call"),
        ("assert max(f(1), 10**9) == 10**9", "around the call"),
        ("assert (7 if f(1) else 7) == 7", "around the call"),
        ("assert sum([], f(1)) == 7", "around the call"),
        ("assert f(1).strip() == 'a'", "around the call"),
        ("assert f(1)(2) == 3", "around the call"),
        ("assert f(**{'x': 1}) == 3", "**"),
        ("assert f(1) is 1", "comparison"),
        ("assert 1 is f(1)", "comparison"),
        ("assert f(f(1)) == 1", "2 times"),
        ("assert f(1) == f(1)", "stated answer calls"),
        ("assert [f(x) for x in range(3)] == [1]", "inside a comprehension"),
        ("assert f(a) == 1", "the name a"),
        ("assert g(1) == 1", "the name g"),
        ("assert f(f) == 1", "the name f"),
        ("assert f(1) == helper(1)", "the name helper"),
        ("assert f.__code__ == 1", "the attribute __code__"),
        ("assert f(1).real == 1", "the attribute real"),
        ("assert f(1).__eq__(2) == 1", "the attribute __eq__"),
        ("assert f('{0.__class__}'.format(1)) == 1", "the attribute format"),
        ("assert f(id(1)) == 1", "the name id"),
        ("assert f([g([1, 7]) for g in {len, sum}]) == 1", "the function len as a value"),
        ("assert f(dict(a=len)) == 1", "the function len as a value"),
        ("assert f(sorted([1], reverse=bool)) == 1", "the function bool as a value"),
        ("assert f([(len, 1)]) == 1", "the function len as a value"),
        ("assert f([1 for _run_ in [1]]) == 1", "rebinds _run_"),
        ("assert f(eval('1')) == 1", "the name eval"),
        ("assert f(__import__('os')) == 1", "the name __import__"),
        ("assert f(lambda: 1) == 1", "a lambda"),
        ("assert f(f'{1}') == 1", "an f-string"),
        ("assert f((x := 1)) == 1", "an assignment expression"),
        ("assert f([len for len in [1]]) == 1", "rebinds len"),
        ("assert f([f for f in [1]]) == 1", "rebinds f"),
        ("assert f([x for x in [1]], x) == 1", "the name x"),
        ("assert f([1 for [1][0] in [2]]) == 1", "a comprehension over something else"),
        ("assert f('" + "a" * 20_000 + "') == 1", "longer than"),
        ("assert f(0x" + "f" * 4_000 + ") == 1", "4300 digits"),
    ],
)
def test_anything_else_is_rejected_with_its_reason(text, reason):
    result = read(text)
    assert isinstance(result, Rejected)
    assert reason in result.reason


def test_a_long_argument_is_not_written_out_many_times():
    calls = "assert f(" + "a, " * 5_000 + ") == 1"
    for long in ("[" + "1, " * 5_000 + "]", "'" + "a" * 9_000 + "'"):
        assert read(calls, a=long) == Rejected("longer than 10000 characters")


def test_the_entry_point_may_have_the_name_of_a_builtin():
    assert read("assert sum([1]) == 1", entry_point="sum") == SuiteTest("sum([1])", "1")
    assert isinstance(read("assert f(sum([1])) == sum([1])", entry_point="sum"), Rejected)


def test_deep_nesting_is_rejected_and_does_not_end_the_host():
    deep = "f(" + "-" * 5_000 + "1)"
    with pytest.raises(OutsideLanguage):
        read_call(deep)
    with pytest.raises(OutsideLanguage):
        read_call("f(" + "[" * 150 + "]" * 150 + ")" + "+1" * 4000)


OUTSIDE = ["f(1", "f(1)); (g(2)", "import os", "f.__globals__", "().__class__", "__import__('os')", "open", "", "x"]
TWICE = ["f(f(1))", "f(g(1))", "[f(1), f(2)]", "[f(x) for x in [1]]", "f(1)(f)", "f(**{'x': 1})", "f(1)\n+2"]


@pytest.mark.parametrize("call", OUTSIDE + TWICE)
def test_a_job_refuses_calls_outside_the_language_and_more_than_one_of_the_program(call):
    with pytest.raises(OutsideLanguage):
        read_call(call)


def test_an_expression_is_taken_apart_into_call_arguments_and_view():
    assert read_call("sorted(f(len([1])))") == ReadCall("f", "((len([1]),), {})", f"sorted({RETURNED})")
    assert read_call("bool(f(*[1], k={2}) > 3)") == ReadCall("f", "((*[1],), {'k': {2}})", f"bool({RETURNED} > 3)")
    assert read_call("[x + 1 for x in f(a=1 + 1)]") == ReadCall(
        "f", "((), {'a': 1 + 1})", f"[x + 1 for x in {RETURNED}]"
    )
    assert read_call("sum([1])") == ReadCall(None, "sum([1])", None)
    assert read_call("sum([1])", "sum").function == "sum"


def test_literal_arguments_are_sent_as_values():
    read = read_call("f(1, [-2.5], k={'a': (True, None)})")
    assert isinstance(read.arguments, bytes)
    assert marshal.loads(read.arguments) == ((1, [-2.5]), {"k": {"a": (True, None)}})
    for text in ("f({1, 2})", "f(1 + 1)", "f(*[1])", "f({[]: 1})", "f(...)", BEYOND_FLOATS):
        arguments = read_call(text).arguments
        assert isinstance(arguments, str), text
