import pytest

from codea1_jax.game.parsing import MAX_CUTS, MAX_REJECTED, extract_program, extract_suite


@pytest.mark.parametrize(
    ("response", "program"),
    [
        ("Text\n```python\nx = 1\n```\nmore\n```python\nx = 2\n```", "x = 1\n"),
        ("```\nfirst\n```\n```python\nsecond\n```", "second\n"),
        ("```js\nlet x\n```\n```\nother\n```", "let x\n"),
        ("def f(): pass", "def f(): pass"),
        ("```python\ncut = 1", "cut = 1"),
        ("", ""),
    ],
)
def test_program_is_the_first_python_block_else_the_first_block_else_everything(response, program):
    assert extract_program(response) == program


def calls(response):
    return [(test.call, test.stated) for test in extract_suite(response, "f").tests]


def test_all_python_blocks_are_joined_in_order():
    response = "```python\nassert f(1) == 2\n```\ntext assert f(9) == 9\n```python\nassert f(3) == 4\n```"
    assert calls(response) == [("f(1)", "2"), ("f(3)", "4")]


def test_without_a_python_block_the_assert_lines_count():
    response = "Tests:\n  assert f(1) == 2\nand assert f(0) == 0\nassert f( 3 )==4\nassert nonsense("
    assert calls(response) == [("f(1)", "2"), ("f(3)", "4")]


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
    [
        "assert f(1) == " + "1+" * 600 + "1",
        "assert g(0x" + "f" * 5000 + ") == 1",
        "assert f(1) > 0, f\"{'\u200b'}\"",
    ],
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


def test_few_lines_are_cut_off_and_a_suite_that_asks_for_many_cuts_is_empty():
    assert calls("```python\nassert f(1) == 2\n" + "@cut\n" * (MAX_CUTS // 2)) == [("f(1)", "2")]
    assert calls("```python\nassert f(1) == 2\n" + "@cut\n" * (2 * MAX_CUTS)) == []


@pytest.mark.parametrize("character", ["a", " "])
def test_an_opening_fence_without_a_line_break_is_no_fence_however_long_it_is(character):
    response = "```" + character * 300_000
    assert extract_program(response) == response


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
    suite = extract_suite(response, "f", answers=False)
    assert [(test.call, test.stated) for test in suite.tests] == [
        ("f(1)", "None"),
        ("f(2)", "None"),
        ("f([3])", "None"),
    ]
    assert len(suite.rejected) == 1
    plain = extract_suite("Calls:\n f(1)\nf(2) is odd\ng(3)", "f", answers=False)
    assert [test.call for test in plain.tests] == ["f(1)"]
