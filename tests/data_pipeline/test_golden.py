"""Golden tests taken from pytest code: each must hold for every function that passes the pytest code."""

import pytest

from data_pipeline.golden import golden_tests
from data_pipeline.rows import BadRow


def test_plain_asserts_of_functions_and_methods_are_kept_in_order_and_once():
    code = """
import pytest
from solution import f

def helper():
    assert f(99) == 100

def test_one():
    assert f(1) == 2
    assert f(1) == 2, "again"
    assert f("é") is None

class TestMore:
    def test_two(self):
        assert sorted(f([2, 1])) == [1, 2]
"""
    assert golden_tests(code, "f") == (
        "assert f(1) == 2",
        "assert f('é') == None",
        "assert sorted(f([2, 1])) == [1, 2]",
    )


def test_names_bound_before_are_replaced_by_their_expressions():
    code = """
LIMIT = 3

def test_names():
    xs, expected = [1, 2], LIMIT
    result = f(xs, LIMIT)
    assert result == expected
    assert [xs for xs in [1, 2]] == f(LIMIT)
"""
    assert golden_tests(code, "f") == (
        "assert f([1, 2], 3) == 3",
        "assert f(3) == [xs for xs in [1, 2]]",
    )


def test_a_name_whose_value_may_have_changed_is_not_replaced():
    code = """
def test_changed():
    xs = [2, 1]
    f(xs)
    assert xs == [1, 2]
    ys = [1]
    ys.append(2)
    assert f(ys) == 3
    n = 1
    n += 1
    assert f(n) == 2
    assert f(0) == 0
"""
    assert golden_tests(code, "f") == ("assert f(0) == 0",)


def test_loops_over_literals_and_parametrize_are_unrolled():
    code = """
@pytest.mark.parametrize("n, expected", [(1, 2), (3, 4)])
def test_cases(n, expected):
    assert f(n) == expected

@pytest.mark.parametrize("n", [7])
@pytest.mark.parametrize("m", (8, 9))
def test_grid(n, m):
    assert f(n, m) == 0

def test_loop():
    cases = [([1], 10), ([2], 20)]
    for xs, expected in cases:
        assert f(xs) == expected
    for i in range(3):
        assert f(i) == i
"""
    assert golden_tests(code, "f") == (
        "assert f(1) == 2",
        "assert f(3) == 4",
        "assert f(7, 8) == 0",
        "assert f(7, 9) == 0",
        "assert f([1]) == 10",
        "assert f([2]) == 20",
    )


def test_other_assertions_become_statements_about_truth():
    code = """
def test_truth():
    assert f(1)
    assert not f(2)
    assert abs(f(3) - 0.5) < 1e-6
    assert 4 in f(4)
    assert f(5) == f(6)
"""
    assert golden_tests(code, "f") == (
        "assert bool(f(1)) == True",
        "assert bool(not f(2)) == True",
        "assert bool(abs(f(3) - 0.5) < 1e-06) == True",
        "assert bool(4 in f(4)) == True",
    )


def test_what_the_suite_language_cannot_express_gives_no_test():
    code = """
def test_outside(capsys):
    with pytest.raises(ValueError):
        f(-1)
    assert f(Node(1)) == 1
    assert f(1).val == 2
    assert capsys.readouterr().out == "x"
"""
    assert golden_tests(code, "f") == ()


def test_cases_that_cannot_be_unrolled_give_no_test_and_other_decorators_do_not_matter():
    code = """
@pytest.mark.parametrize(["n", "m"], [(1, 2)])
def test_names_in_a_list(n, m):
    assert f(n) == m

@pytest.mark.parametrize("n, (a, b)", [(1, (2, 3)), (4, 5)])
def test_an_item_instead_of_a_pair(n, a, b):
    assert f(n) == a

@pytest.mark.timeout(3)
@slow
def test_loops():
    for n, m in [(1, 2, 3)]:
        assert f(n) == m
    for n, m in [1, 2]:
        assert f(n) == m
    for [n, (m, k)] in ((7, [8, 9]),):
        assert f(n, m) == k
    for box.n in [1]:
        assert f(10) == 11
"""
    assert golden_tests(code, "f") == ("assert f(7, 8) == 9",)


def test_code_that_does_not_parse_is_a_reason():
    with pytest.raises(BadRow, match="the test code does not parse: invalid syntax"):
        golden_tests("def test_x(:", "f")
