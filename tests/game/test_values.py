"""What a suite's tests find: the definitions, and whole groups judged by the real judge; figures computed by hand."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_group import played

from codea1_jax.config import RewardConfig
from codea1_jax.game.branches import submit_branches
from codea1_jax.game.rewards import BookScore, SuiteScore, adversarial, suite_reward
from codea1_jax.game.values import Finds, discrimination, failing, regression, worth
from data_pipeline import Problem
from sandbox import Outcome, SandboxPool, Status, Task, Test

SOLUTION = "def f(x):\n    return 1 if x > 3 else 0"
BOUNDARY = "def f(x):\n    return 1 if x >= 3 else 0"
ZERO = "def f(x):\n    return 0"
LATER = "def f(x):\n    return 1 if x > 7 else 0"
BROKEN = "raise ValueError"
PROBLEM = Problem("p", "def f(x): ...", SOLUTION, "f", (), mutants=(BOUNDARY, ZERO, LATER))


def suite(*inputs: int) -> str:
    return "\n".join(f"assert f({x}) == {int(x > 3)}" for x in inputs)


PROGRAMS = (SOLUTION, BOUNDARY, ZERO, BROKEN)
SUITES = [[suite(3, 9), suite(1)], [suite(9, 4)], [suite(3)], [suite(4)]]


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=2) as pool:
        yield pool


def values(pool: SandboxPool, problem: Problem = PROBLEM, book: tuple[Test, ...] = (), **rewards: str | float):
    """What each suite of the group earns in the place of adv."""
    programs = played(pool, PROGRAMS, SUITES, problem, book, **rewards).programs
    return [[s.reward.adversarial for s in p.suites] for p in programs]


# --- a suite's worth ------------------------------------------------------------------------------------------

A, B, C = TESTS = tuple(Test(name, "0") for name in "abc")
SETS = st.integers(0, 63).map(lambda bits: frozenset(i for i in range(6) if bits >> i & 1))
FOUND = st.lists(SETS, min_size=1, max_size=6)
PRICES = st.floats(0, 1)


def finds(found: list[frozenset[int]], total: int = 6) -> tuple[list[Test], Finds]:
    tests = [Test(str(i), "0") for i in range(len(found))]
    return tests, Finds(dict(zip(tests, found, strict=True)), total)


def test_a_suite_is_worth_what_its_tests_find_together_less_the_price_of_those_that_find_nothing_new():
    known = Finds({A: frozenset({0, 1}), B: frozenset({1}), C: frozenset({2})}, 4)
    assert worth([A], known, 8, 0.0) == 2 / 4
    assert worth([A, B, C], known, 8, 0.0) == 3 / 4
    assert worth([A, B, C], known, 8, 0.5) == 3 / 4 - 0.5 / 8  # b finds nothing that a has not found
    assert worth([B, A, C], known, 8, 0.5) == 3 / 4  # here every test finds something new
    assert worth([A, B, C], known, 2, 0.5) == 2 / 4 - 0.5 / 2  # of three tests the first two count
    assert worth([B, B], known, 2, 1.0) == 0
    assert worth([], known, 8, 0.5) == worth([A], Finds({A: frozenset()}, 0), 8, 0.5) == 0


@given(FOUND, PRICES, st.integers(1, 6))
def test_a_worth_lies_between_0_and_1(found, price, size):
    assert 0 <= worth(*finds(found), size, price) <= 1


@given(FOUND, st.randoms())
def test_without_a_price_the_order_of_tests_makes_no_difference_and_no_test_costs_anything(found, rng):
    tests, known = finds(found)
    shuffled = rng.sample(tests, len(tests))
    assert worth(shuffled, known, 6, 0.0) == worth(tests, known, 6, 0.0) >= worth(tests[:-1], known, 6, 0.0)


@given(FOUND, PRICES)
def test_a_test_that_finds_what_an_earlier_one_did_costs_the_price_over_k(found, price):
    tests, known = finds(found)
    less = worth(tests, known, 8, price) - price / 8
    assert worth([*tests, tests[0]], known, 8, price) == pytest.approx(max(0, less))


# --- what is found of siblings --------------------------------------------------------------------------------

FAILED = st.dictionaries(st.sampled_from(TESTS), SETS, min_size=1)


def test_siblings_are_wrong_that_a_valid_test_or_one_of_the_book_fails():
    failed = {A: frozenset({1, 2}), B: frozenset({2}), C: frozenset()}
    assert discrimination(failed, frozenset()) == Finds(failed, 2)
    assert discrimination(failed, frozenset({2, 3})) == Finds(failed, 3)
    assert discrimination({C: frozenset()}, frozenset()) == Finds({C: frozenset()}, 0)
    assert regression(failed, frozenset({2, 3})) == Finds({A: frozenset({2}), B: frozenset({2}), C: frozenset()}, 2)
    assert regression(failed, frozenset()).total == 0


@given(FAILED, SETS, st.permutations(range(6)))
def test_siblings_may_come_in_any_order(failed, on_book, numbers):
    def renumbered(programs):
        return frozenset(numbers[i] for i in programs)

    for value in (discrimination, regression):
        first = value(failed, on_book)
        second = value({t: renumbered(programs) for t, programs in failed.items()}, renumbered(on_book))
        assert worth(tuple(failed), first, 8, 0.25) == worth(tuple(failed), second, 8, 0.25)


@given(FAILED, SETS)
def test_all_tests_together_find_every_sibling_that_they_show_to_be_wrong(failed, on_book):
    assert worth(tuple(failed), discrimination(failed, frozenset()), 8, 0.0) == float(any(failed.values()))
    known = regression(failed, on_book)
    caught = frozenset().union(*failed.values()) & on_book
    assert worth(tuple(failed), known, 8, 0.0) == (len(caught) / len(on_book) if on_book else 0)


@given(st.lists(st.booleans(), max_size=6), st.integers(1, 4))
def test_of_a_program_alone_discrimination_is_the_papers_adv_where_one_kill_counts_whole(killed, size):
    tests, known = finds([frozenset({0}) if kill else frozenset[int]() for kill in killed])
    config = RewardConfig(difficulty="any", suite_size=size)
    adv = adversarial(SuiteScore(tuple(killed), 0), BookScore(0, 0), config)
    assert worth(tests, discrimination(known.by_test, frozenset()), size, 0.0) == (adv if any(killed[:size]) else 0)


def test_a_test_is_failed_by_what_raises_or_returns_something_else():
    returned = [Outcome(Status.RETURNED, "1"), Outcome(Status.RETURNED, "2"), Outcome(Status.RAISED)]
    assert failing([A], {}) == {A: frozenset()}
    assert failing([Test("a", "1")], {i: {"a": each} for i, each in enumerate(returned)}) == {
        Test("a", "1"): frozenset({1, 2})
    }


# --- groups that were judged ----------------------------------------------------------------------------------


def test_a_value_stands_in_the_place_of_adv():
    score, book = SuiteScore((True, False), 1), BookScore(1, 2)
    for valid in (True, False):
        config = RewardConfig(alpha=0.25)
        rewarded = suite_reward(score, book, code_valid=valid, config=config, value=0.5)
        assert (rewarded.reward, rewarded.adversarial) == ((0.25 * 2 / 8 + 0.75 * 0.5) * valid, 0.5)


def test_discrimination_is_the_share_of_wrong_siblings_that_a_suite_fails(pool):
    # f(3) fails BOUNDARY; f(9) and f(4) fail ZERO; SOLUTION is right. BROKEN does not execute, so it is not counted
    assert values(pool, test_value="discrimination") == [[2 / 2, 0], [1 / 2], [1 / 2], [1 / 2]]
    question = played(pool, PROGRAMS, SUITES, PROBLEM, test_value="discrimination")
    # val = kept/8; alpha is 1/2; a suite for a program that does not execute earns nothing
    assert [[s.reward.reward for s in p.suites] for p in question.programs] == [
        [2 / 16 + 1 / 2, 1 / 16],
        [2 / 16 + 1 / 4],
        [1 / 16 + 1 / 4],
        [0],
    ]


def test_where_every_sibling_is_right_nothing_is_to_be_found(pool):
    (program,) = played(pool, [SOLUTION], [[suite(3, 9)]], PROBLEM, test_value="discrimination").programs
    assert (program.suites[0].reward.adversarial, program.reward) == (0, 1)


def test_regression_is_the_share_of_siblings_failing_the_book_that_a_suite_fails_too(pool):
    book = (Test("f(5)", "1"), Test("f(0)", "0"))  # ZERO fails the first
    assert values(pool, book=book, test_value="regression") == [[1, 0], [1], [0], [1]]
    assert values(pool, test_value="regression") == [[0, 0], [0], [0], [0]]


def test_programs_earn_the_same_whatever_a_test_is_worth(pool):
    paper, *others = (
        [p.reward for p in played(pool, PROGRAMS, SUITES, PROBLEM, test_value=value).programs]
        for value in ("paper", "discrimination", "regression", "mutation", "coverage")
    )
    assert paper == [1, 1, 1, 0]
    assert all(rewards == paper for rewards in others)


def test_mutation_is_the_share_of_mutants_that_a_suite_kills(pool):
    # f(3) kills BOUNDARY; f(9) kills ZERO; f(4) kills ZERO and LATER
    assert values(pool, test_value="mutation") == [[2 / 3, 0], [2 / 3], [1 / 3], [2 / 3]]
    # f(1) finds nothing: 0 - 1/16, and never less than nothing
    priced = values(pool, test_value="mutation", redundancy_price=0.5)
    assert priced == [[2 / 3, 0], [2 / 3], [1 / 3], [2 / 3]]
    repeated = played(
        pool, [SOLUTION], [[suite(4, 9), suite(9, 4)]], PROBLEM, test_value="mutation", redundancy_price=0.5
    )
    assert [s.reward.adversarial for s in repeated.programs[0].suites] == [2 / 3 - 0.5 / 8, 2 / 3]
    assert values(pool, test_value="mutation", mutants=1) == [[1, 0], [0], [1], [0]]
    assert values(pool, replace(PROBLEM, mutants=()), test_value="mutation") == [[0, 0], [0], [0], [0]]


WRONGLY_STATED = "assert f(3) == 0\nassert f(9) == 0"  # f(3) fails BOUNDARY; f(9), which is 1, fails ZERO


@pytest.mark.parametrize(("value", "all_kept", "right"), [("mutation", 2 / 3, 1 / 3), ("discrimination", 1, 1 / 2)])
def test_where_only_right_tests_earn_one_that_states_a_wrong_answer_finds_nothing(pool, value, all_kept, right):
    suites = [[WRONGLY_STATED], [suite(3)], [suite(9)]]
    for only_right, earned in ((False, all_kept), (True, right)):
        question = played(pool, PROGRAMS[:3], suites, PROBLEM, test_value=value, only_right=only_right)
        assert question.programs[0].suites[0].reward.adversarial == earned
        assert [p.reward for p in question.programs] == [1, 0, 0], "programs face the test all the same"


def test_the_papers_adv_of_right_tests_alone(pool):
    """Against ZERO, of K = 8: f(9) fails it, and counts if it states 1."""
    for stated, only_right, earned in ((1, True, 1 / 8), (0, False, 1 / 8), (0, True, 0)):
        (program,) = played(pool, [ZERO], [[f"assert f(9) == {stated}"]], PROBLEM, only_right=only_right).programs
        assert program.suites[0].reward.adversarial == earned


def test_coverage_is_the_share_of_the_references_branches_that_a_suite_takes(pool):
    assert values(pool, test_value="coverage") == [[1, 1 / 2], [1 / 2], [1 / 2], [1 / 2]]
    priced = values(pool, test_value="coverage", redundancy_price=0.5)
    assert priced == [[1, 1 / 2], [1 / 2 - 0.5 / 8], [1 / 2], [1 / 2]]


# --- branches -------------------------------------------------------------------------------------------------

LOOP = """
CALLS = []
def f(n):
    CALLS.append(n)
    if len(CALLS) > 1:
        return -1
    total = 0
    for i in range(n):
        if i % 3 == 0 and i % 5:
            total += i
    return total
"""
COUNTER = """
class C:
    def __init__(self):
        self.n = 0
    def up(self, by):
        self.n += by if by > 0 else 0
        return self.n
"""


def branches(pool: SandboxPool, problem: Problem, *calls: str) -> tuple[list[int], int]:
    tests = [Test(call, "0") for call in calls]
    found = submit_branches(pool, problem, tests)()
    return [len(found.by_test[test]) for test in tests], found.total


def test_a_branch_is_one_of_the_two_ways_on_from_a_condition_or_a_loop(pool):
    problem = replace(PROBLEM, solution=LOOP)
    # not len > 1; the loop: ends at once; or a turn each, % 3 both ways, % 5 both ways (0 is no other)
    assert branches(pool, problem, "f(0)", "f(1)", "f(2)", "f(4)", "sorted([f(0)])[0]") == ([2, 5, 6, 7, 2], 8)


def test_each_call_finds_the_reference_as_if_it_were_the_only_one(pool):
    problem = replace(PROBLEM, solution=LOOP)
    assert branches(pool, problem, "f(4)", "f(4)", "f(4)") == ([7, 7, 7], 8)


def test_a_call_that_dies_takes_no_branch_and_costs_no_other_test_its_own(pool):
    problem = replace(PROBLEM, solution="def f(n):\n    while n:\n        n = n if n > 2 else n - 1\n    return 0")
    short = SandboxPool(workers=1, limits=replace(pool.limits, call_seconds=0.2))
    with short:
        assert branches(short, problem, "f(1)", "f(9)", "f(0)") == (
            [3, 0, 1],
            6,
        )  # a loop's condition is two instructions


def test_a_long_call_takes_the_branches_of_its_beginning(pool):
    problem = replace(
        PROBLEM, solution="def f(n):\n    for i in range(n):\n        if i == 99_999:\n            i = 0\n    return 0"
    )
    assert branches(pool, problem, "f(1_000)", "f(100_000)", "f(100)") == ([3, 2, 3], 4)


def test_functions_of_trees_have_branches(pool):
    solution = "def depth(root: TreeNode):\n    return 1 + depth(root.left) if root else 0"
    assert branches(pool, replace(PROBLEM, solution=solution, entry_point="depth"), "depth([])", "depth([1])") == (
        [1, 2],
        2,
    )


def test_methods_of_a_class_have_branches(pool):
    problem = Problem("c", "class C with up(by)", COUNTER, "C", (), task=Task.CLASS)
    calls = [f"run_calls((), [('up', ({by},))])" for by in (1, -1)]
    assert branches(pool, problem, *calls, "run_calls((), [('up', (1,)), ('up', (-1,))])") == ([1, 1, 2], 2)
