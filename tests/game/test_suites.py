import ast
import random
from functools import partial

import pytest
from work import calls_of

from codea1_jax.game.suites import MAX_REJECTED, SuiteRules, extract_suite, parse_statements
from data_pipeline.responses import MAX_RESPONSE


def calls(response):
    return [(test.call, test.stated) for test in extract_suite(response, "f").tests]


def test_all_python_blocks_are_joined_in_order():
    response = "```python\nassert f(1) == 2\n```\ntext assert f(9) == 9\n```python\nassert f(3) == 4\n```"
    assert calls(response) == [("f(1)", "2"), ("f(3)", "4")]


def test_without_a_python_block_the_assert_lines_count():
    response = "Tests:\n  assert f(1) == 2\nand assert f(0) == 0\nassert f( 3 )==4\nassert nonsense("
    assert calls(response) == [("f(1)", "2"), ("f(3)", "4")]


@pytest.mark.parametrize(
    "response",
    [
        "```python\nTESTS```",
        "~~~\nTESTS~~~",
        "````md\nTests:\n```py\nTESTS```\n````",
        "1. So:\n\n   ```Python\n   TESTS   ```",
        "```\n4\n```\n```\nTESTS```<|im_end|>",
        "<think>\n```python\nassert f(5) == 6\n```\n</think>\nTests:\nTESTS",
        "Tests:\nTESTSassert f(",
    ],
)
def test_asserts_over_several_lines_count_wherever_they_stand(response):
    tests = "assert f(\n    [1,\n     2],\n) == 3\nassert f(\n1\n) == \\\n2\nassert f(0) == 0\n"
    indent = "   " if "   TESTS" in response else ""
    text = response.replace("TESTS", tests.replace("\n", f"\n{indent}").removesuffix(indent))
    assert calls(text) == [("f([1, 2])", "3"), ("f(1)", "2"), ("f(0)", "0")]


def test_a_response_cut_off_mid_statement_keeps_what_stands_before_the_cut():
    assert calls("```python\nassert f(1) == 2\nassert f([1,\n 2") == [("f(1)", "2")]
    assert calls("assert f(1) == 2\nassert f(3) ==") == [("f(1)", "2")]


def test_is_counts_for_true_false_none():
    assert calls("assert f(1) is True\nassert f(2) is None") == [("f(1)", "True"), ("f(2)", "None")]


def test_a_name_bound_before_is_replaced_among_the_arguments():
    response = "```python\nxs = [1, 2]\nassert f(xs) == 3\nxs = [4]\nassert f(xs) == 4\n```"
    assert calls(response) == [("f([1, 2])", "3"), ("f([4])", "4")]


def test_asserts_inside_test_functions_count_with_their_own_names():
    response = (
        "```python\ndef test_one():\n    x = 1\n    assert f(x) == 2\n\ndef test_two():\n    assert f(x) == 3\n```"
    )
    suite = extract_suite(response, "f")
    assert [(t.call, t.stated) for t in suite.tests] == [("f(1)", "2")]
    assert len(suite.rejected) == 1


def test_asserts_outside_the_suite_language_are_reported_and_are_no_tests():
    suite = extract_suite("assert f.__code__ == 1\nassert f(1) > 0\nassert f(1) == 1", "f")
    assert [test.call for test in suite.tests] == ["f(1)"]
    assert [rejected.text for rejected in suite.rejected] == ["assert f.__code__ == 1", "assert f(1) > 0"]
    assert all(rejected.reason for rejected in suite.rejected)


@pytest.mark.parametrize(
    "response", ["", "\x00", "assert " * 500, "```python\n" + "(" * 5000, "assert f(" + "[" * 3000, "\ud800"]
)
def test_nonsense_is_an_empty_suite(response):
    assert extract_suite(response, "f").tests == ()


@pytest.mark.parametrize(
    "response",
    ["assert f(1) == " + "1+" * 600 + "1", "assert g(0x" + "f" * 5000 + ") == 1", "assert f(1) > 0, f\"{'\u200b'}\""],
    ids=["too deep", "an integer too long to print", "an f-string that needs a backslash"],
)
def test_an_assert_that_cannot_be_written_out_again_is_rejected_like_any_other(response):
    suite = extract_suite(response, "f")
    assert suite.tests == ()
    assert len(suite.rejected) == 1
    assert suite.rejected[0].text


def test_little_is_kept_of_a_rejected_assert_in_which_a_long_name_is_bound_often():
    suite = extract_suite(f"```python\nx = '{'a' * 9000}'\nassert f({'x,' * 900}) > 1\n```", "f")
    assert len(suite.rejected[0].text) <= MAX_REJECTED


def test_only_line_breaks_end_a_line():
    assert calls("assert f('a\x0cb') == 1") == [("f('a\\x0cb')", "1")]
    assert calls("```python\nassert f('a\u2028b') == 1\r\nassert f(2) == 2\r\n```") == [
        ("f('a\\u2028b')", "1"),
        ("f(2)", "2"),
    ]


def test_a_statement_that_does_not_parse_costs_itself_alone():
    broken = "assert f(1)==1\nassert f(007)==7\nassert f(3)==3\nassert f(4)==4"
    for response in (broken, f"```python\n{broken}\n```"):
        assert calls(response) == [("f(1)", "1"), ("f(3)", "3"), ("f(4)", "4")]
    assert calls("```python\nassert f(1) == 2\n" + "@cut\n" * 1_000) == [("f(1)", "2")]


def test_of_a_broken_function_the_statements_are_read_one_by_one():
    response = "```python\ndef test(:\n    x = 3\n    assert f(x) == 1\nassert f(0) == 0\n assert f(5) == 5\n```"
    assert calls(response) == [("f(3)", "1"), ("f(0)", "0"), ("f(5)", "5")]


def test_a_statement_over_several_lines_is_read_behind_a_broken_one():
    response = (
        "```python\nassert f(== 1\nassert f([\n1,\n2,\n]) == 3\nx = '''\nassert f(8) == 8\n'''\nassert f(9) == 9\n```"
    )
    assert ("f([1, 2])", "3") in calls(response)
    assert ("f(9)", "9") in calls(response)


def line_by_line(source: str) -> list[str]:
    """The asserts among lines that each parse alone: what a suite of one statement a line must be read as."""
    found = []
    for line in source.split("\n"):
        try:
            statements = ast.parse(line.strip()).body
        except (SyntaxError, ValueError):
            continue
        found += [ast.unparse(s) for s in statements if isinstance(s, ast.Assert)]
    return found


@pytest.mark.parametrize("count", [500, pytest.param(200_000, marks=pytest.mark.long)])
def test_a_mutated_suite_is_read_as_line_by_line(count):
    rng = random.Random(0)
    # Nothing that joins lines in Python: no backslash, no triple quotes.
    pieces = [*"()[]{}=,1'@:;#.$?", "==", "007", "0x", "a b"]
    for _ in range(count):
        lines = [f"assert f({rng.randint(0, 99)}, [1, 'a']) == {{{rng.randint(0, 9)}: (2, 3)}}" for _ in range(6)]
        for _ in range(rng.randint(0, 6)):
            at = rng.randrange(6)
            place = rng.randint(7, len(lines[at]))
            lines[at] = lines[at][:place] + rng.choice(pieces) + lines[at][place + rng.choice((0, 0, 1, 3)) :]
        source = "\n".join(lines)
        found = [ast.unparse(s) for s in parse_statements(source) if isinstance(s, ast.Assert)]
        assert found == line_by_line(source), source


read_at_most_16 = partial(extract_suite, entry_point="f", rules=SuiteRules(most=16))
LONG = {
    "bindings that are used often": lambda n: "x=[" + "1," * n + "]\n" + "assert f(x,x,x,x)==1\n" * (n // 10),
    "many bindings": lambda n: "".join(f"x{i}=1\nassert f(x{i})==1\n" for i in range(n // 10)),
    "open brackets": lambda n: "x=(\n" * (n // 2),
    "asserts that never end": lambda n: "assert f(\n1,\n" * (n // 5),
    "ever deeper and broken": lambda n: "\n".join(" " * i + "if (:" for i in range(int(n**0.5))),
    "brackets that close": lambda n: "assert f(\n" + "1)\n" * n,
    "functions in functions": lambda n: "\n".join(" " * i + f"def t{i}(x):" for i in range(90)) + "\n" + "x = 1\n" * n,
}


@pytest.mark.parametrize("kind", LONG)
def test_reading_takes_time_in_proportion_to_the_length(kind):
    read_at_most_16("```python\nassert f(1) == 1\n```")  # whatever is done once
    short, long = (calls_of(partial(read_at_most_16, f"```python\n{LONG[kind](n)}\n```")) for n in (500, 2_000))
    assert long < 6 * short + 20_000


@pytest.mark.parametrize("line", ["(", "('", "x\n(", "if (:", "assert f("])
def test_a_response_of_broken_lines_is_given_up(line):
    response = "```python\n" + f"{line}\n" * (90_000 // len(line)) + "```"
    assert calls_of(partial(read_at_most_16, response)) < 800_000


def test_a_response_is_read_up_to_a_length_and_a_suite_up_to_a_number_of_tests():
    response = "\n".join(f"assert f({i}) == 1" for i in range(100))
    assert len(extract_suite(response, "f", rules=SuiteRules(most=16)).tests) == 16
    assert len(extract_suite(response, "f").tests) == 100
    assert extract_suite(" " * MAX_RESPONSE + "\nassert f(1) == 1", "f").tests == ()


def test_asserts_in_branches_and_loops_count_but_a_loop_variable_has_no_value():
    response = (
        "```python\nif __name__ == '__main__':\n    assert f(1) == 2\nelse:\n    assert f(2) == 3\n"
        "x = 5\nfor x in [1, 2]:\n    assert f(x) == 3\n    assert f(7) == 8\nassert f(x) == 6\n"
        "try:\n    assert f(3) == 4\nfinally:\n    assert f(4) == 5\n```"
    )
    suite = extract_suite(response, "f")
    assert [test.call for test in suite.tests] == ["f(1)", "f(2)", "f(7)", "f(5)", "f(3)", "f(4)"]
    assert [rejected.text for rejected in suite.rejected] == ["assert f(x) == 3"]


def test_a_parameter_has_no_value_though_a_name_outside_is_spelled_the_same():
    suite = extract_suite("```python\nx = 1\ndef test(x):\n    assert f(x) == 2\n```", "f")
    assert suite.tests == ()
    assert len(suite.rejected) == 1


def test_without_answer_prediction_bare_calls_are_tests_and_stated_answers_count_for_nothing():
    response = "```python\nf(1)\nassert f(2) == oracle\nxs = [3]\nf(xs)\nprint(f(4))\n```"
    suite = extract_suite(response, "f", rules=SuiteRules(answers=False))
    assert [(test.call, test.stated) for test in suite.tests] == [
        ("f(1)", "None"),
        ("f(2)", "None"),
        ("f([3])", "None"),
    ]
    assert len(suite.rejected) == 1
    plain = extract_suite("Calls:\n f(1)\nf(2) is odd\ng(3)", "f", rules=SuiteRules(answers=False))
    assert [test.call for test in plain.tests] == ["f(1)"]


def test_a_suite_of_two_thousand_branches_is_read_to_its_end():
    branches = "if 0:0\n" + "elif 0:0\n" * 2_000
    found = extract_suite(f"```python\n{branches}assert f(1) == 1\n```", "f")
    assert [test.call for test in found.tests] == ["f(1)"]


@pytest.mark.parametrize(("statement", "read"), [("0\n", 1), ("import a\n", 1), ("if 1:0\n", 0), ("def g():0\n", 0)])
def test_names_that_are_bound_in_many_blocks_end_the_reading_of_a_suite(statement, read):
    names = "".join(f"a{i} = 1\n" for i in range(1_000))
    found = extract_suite(f"```python\n{names}{statement * 1_000}assert f(1) == 1\n```", "f")
    assert len(found.tests) == read


def test_junk_counts_as_the_original_has_it_or_costs_nothing():
    source = (
        "assert f(1) == 1\nassert f(2) != 2\nassert f(3) in [3]\nassert f(4) > 1 > 0\nassert g(5) == 5\n"
        "assert f(x) == 6\nassert f(7).real == 7\nassert 8 < f(8)\nassert f(9)\nassert f(010) == 8\nassert f(N) == 0\n"
    )
    plain = extract_suite(source, "f")
    assert (len(plain.tests), len(plain.rejected), plain.invalid) == (1, 9, 0)
    rules = SuiteRules(junk_counts=True, names={"N": ast.parse("[0]").body[0].value})
    junk = extract_suite(f"```python\n{source}```", "f", "paper", rules)
    assert [(test.call, test.stated) for test in junk.tests] == [
        *(("f(1)", "1"), ("f(2)", "2"), ("f(3)", "[3]"), ("f(4)", "1"), ("f([0])", "0"))
    ]
    assert junk.invalid == 2  # g(5) and f(x): the others have no call on the left, or do not parse
    assert extract_suite(source, "f", "paper", rules).invalid == 6  # without a block, every line counts
    many = "\n".join(f"assert f({i}) == {i}" for i in range(40))
    assert len(extract_suite(many, "f", "paper", rules).tests) == 40
