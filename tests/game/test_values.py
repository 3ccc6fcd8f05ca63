"""What a suite's tests kill: the definitions, and whole groups judged by the real judge; figures computed by hand."""

from dataclasses import replace
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_group import played

from codea1_jax.config import RewardConfig
from codea1_jax.game.rewards import suite_reward
from codea1_jax.game.values import Detections, detect, own_values, shared_values
from data_pipeline import Problem
from sandbox import Outcome, SandboxPool, Status, Test

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


def values(pool: SandboxPool, problem: Problem = PROBLEM, book: tuple[Test, ...] = (), **rewards: str | float):
    """What each suite of the group earns in the place of adv."""
    programs = played(pool, PROGRAMS, SUITES, problem, book, **rewards).programs
    return [[s.reward.adversarial for s in p.suites] for p in programs]


# --- a suite's value ------------------------------------------------------------------------------------------

A, B, C = TESTS = tuple(Test(name, "0") for name in "abc")
SETS = st.integers(0, 63).map(lambda bits: frozenset(i for i in range(6) if bits >> i & 1))
FOUND = st.lists(SETS, min_size=1, max_size=6)


def killing(found: list[frozenset[int]], total: int = 6) -> tuple[list[Test], Detections]:
    tests = [Test(str(i), "0") for i in range(len(found))]
    return tests, Detections({test.call: kills for test, kills in zip(tests, found, strict=True)}, total)


def test_a_suite_is_worth_the_share_that_its_tests_find_together():
    known = Detections({"a": frozenset({0, 1}), "b": frozenset({1}), "c": frozenset({2})}, 4)
    assert own_values([[A], [B, A], [A, B, C], []], known) == [2 / 4, 2 / 4, 3 / 4, 0]
    assert own_values([[A]], Detections({"a": frozenset()}, 0)) == [0]


@given(FOUND, st.randoms())
def test_the_order_of_tests_makes_no_difference_and_no_test_costs_anything(found, rng):
    tests, known = killing(found)
    shuffled, ordered, fewer = own_values([rng.sample(tests, len(tests)), tests, tests[:-1]], known)
    assert 0 <= fewer <= ordered == shuffled <= 1


def shared(suites: list[list[frozenset[int]]], total: int = 6) -> list[float]:
    """The values of suites whose tests kill these."""
    named = [[Test(f"{i} {k}", "0") for k in range(len(own))] for i, own in enumerate(suites)]
    found = {
        test.call: kills
        for tests, own in zip(named, suites, strict=True)
        for test, kills in zip(tests, own, strict=True)
    }
    return shared_values(named, Detections(found, total))


SEVERAL = st.lists(st.lists(SETS, max_size=4), min_size=1, max_size=5)


def test_what_one_suite_alone_finds_is_worth_most():
    # 0 is found by both, 1 by the first and 2 by nobody: of m = 2 suites, 2 · (1/2 + 1) / 4 and 2 · 1/2 / 4
    assert shared([[frozenset({0}), frozenset({0, 1})], [frozenset({0})]], 4) == [0.75, 0.25]
    assert shared([[frozenset({0, 1, 2})], []], 4) == [1.5, 0]
    assert shared([[frozenset()], [frozenset()]], 0) == [0, 0]


@given(SEVERAL)
def test_shared_values_sum_to_as_many_times_what_all_find_as_there_are_suites(suites):
    found = frozenset().union(*(kills for own in suites for kills in own))
    assert sum(shared(suites)) == pytest.approx(len(suites) * len(found) / 6)


@given(SEVERAL, st.randoms())
def test_suites_in_another_order_have_their_values_in_that_order(suites, rng):
    order = rng.sample(range(len(suites)), len(suites))
    assert shared([suites[i] for i in order]) == pytest.approx([shared(suites)[i] for i in order])


@given(SEVERAL)
def test_a_suite_and_its_copy_earn_half_each_of_what_it_would_alone_for_what_nobody_else_finds(suites):
    own = [frozenset({4, 5})]
    others = [[kills - own[0] for kills in each] for each in suites]
    alone, twice = shared([own, *others])[0], shared([own, own, *others])[:2]
    assert twice == pytest.approx([alone / 2 * (len(suites) + 2) / (len(suites) + 1)] * 2)


@given(SEVERAL, st.integers(0, 4), st.integers(0, 4))
def test_a_group_in_which_one_suite_copies_another_earns_no_more(suites, own, sibling):
    copied = list(suites)
    copied[own % len(suites)] = suites[sibling % len(suites)]
    assert sum(shared(copied)) <= sum(shared(suites)) + 1e-9


def test_a_test_is_failed_by_what_raises_or_returns_something_else():
    returned = [Outcome(Status.RETURNED, "1"), Outcome(Status.RETURNED, "2"), Outcome(Status.RAISED)]
    assert detect([A], []) == Detections({"a": frozenset()}, 0)
    found = detect([Test("a", "1")], [{"a": each} for each in returned])
    assert found == Detections({"a": frozenset({1, 2})}, 3)


# --- groups that were judged ----------------------------------------------------------------------------------


def test_a_value_stands_in_the_place_of_adv():
    for valid in (True, False):
        config = RewardConfig(alpha=0.25)
        rewarded = suite_reward((True, False), (True, False), config, invalid=1, code_valid=valid, value=0.5)
        assert (rewarded.reward, rewarded.adversarial) == ((0.25 * 2 / 8 + 0.75 * 0.5) * valid, 0.5)


def test_programs_earn_the_same_whatever_a_suite_is_worth(pool):
    paper, mutation = (
        [p.reward for p in played(pool, PROGRAMS, SUITES, PROBLEM, test_value=value).programs]
        for value in ("paper", "mutation")
    )
    assert paper == mutation == [1, 1, 1, 0]


def test_mutation_is_the_share_of_mutants_that_a_suite_kills(pool):
    # f(3) kills BOUNDARY; f(9) kills ZERO; f(4) kills ZERO and LATER
    assert values(pool, test_value="mutation") == [[2 / 3, 0], [2 / 3], [1 / 3], [2 / 3]]
    assert values(pool, test_value="mutation", mutants=1) == [[1, 0], [0], [1], [0]]


def test_suites_that_kill_the_same_mutant_share_its_credit(pool):
    # of m = 5: BOUNDARY is killed by suites 1 and 4, ZERO by 1, 3 and 5, LATER by 3 and 5; suite 2 kills nothing
    boundary, zero, later = 1 / 2, 1 / 3, 1 / 2
    expected = [[boundary + zero, 0], [zero + later], [boundary], [zero + later]]
    found = values(pool, test_value="shared")
    for own, right in zip(found, expected, strict=True):
        assert own == pytest.approx([5 / 3 * each for each in right])


def test_without_mutants_a_questions_own_wrong_programs_are_what_there_is_to_find(pool):
    # BOUNDARY, which f(3) fails, and ZERO, which f(4) and f(9) fail; BROKEN does not execute, SOLUTION is right
    found = [[1, 0], [1 / 2], [1 / 2], [1 / 2]]
    bare = replace(PROBLEM, mutants=())
    assert values(pool, bare, test_value="mutation") == values(pool, test_value="mutation", mutants=0) == found
    boundary, zero = 5 / 2 / 2, 5 / 2 / 3
    shared = values(pool, bare, test_value="shared")
    assert [value for own in shared for value in own] == pytest.approx([boundary + zero, 0, zero, boundary, zero])
    right = played(pool, [SOLUTION], [[suite(3, 4)]], bare, test_value="mutation").programs
    assert [s.reward.adversarial for s in right[0].suites] == [0]


def test_validity_and_shared_credit_count_alike_whatever_their_spread(pool):
    """Of one program's suites one states a wrong answer and finds most, one is right and finds nothing."""
    texts = ["assert f(3) == 0\nassert f(9) == 1\nassert f(1) == 5", suite(1, 2, 5), suite(4)]
    for alpha in (0.5, 0.9):
        (program,) = played(pool, [SOLUTION], [texts], PROBLEM, test_value="shared", alpha=alpha).programs
        parts = [[getattr(s.reward, part) for s in program.suites] for part in ("validity", "adversarial")]
        of_val, of_adv = ([(x - fmean(values)) / (stdev(values) + 1e-6) for x in values] for values in parts)
        expected = [alpha * v + (1 - alpha) * a for v, a in zip(of_val, of_adv, strict=True)]
        assert [s.advantage for s in program.suites] == pytest.approx(expected)
    (broken,) = played(pool, [BROKEN], [texts], PROBLEM, test_value="shared").programs
    assert [s.advantage for s in broken.suites] == [0, 0, 0]


def test_two_spellings_of_one_input_kill_each_by_itself(pool):
    """A program that looks at more than the reference does: whichever suite comes first."""
    problem = replace(PROBLEM, solution="def f(x):\n    return len(x)", mutants=())
    wrong = "def f(x):\n    return len(x) if type(x) is list else -1"
    texts = ["assert f([1, 2]) == 2", "assert f((1, 2)) == 2"]
    for order, found in ((texts, [0, 1]), (texts[::-1], [1, 0])):
        (program,) = played(pool, [wrong], [order], problem, test_value="mutation").programs
        assert [s.reward.adversarial for s in program.suites] == found


WRONGLY_STATED = "assert f(3) == 0\nassert f(9) == 0"  # f(3) fails BOUNDARY; f(9), which is 1, fails ZERO


def test_where_only_right_tests_earn_one_that_states_a_wrong_answer_kills_nothing(pool):
    suites = [[WRONGLY_STATED], [suite(3)], [suite(9)]]
    for only_right, earned in ((False, 2 / 3), (True, 1 / 3)):
        question = played(pool, PROGRAMS[:3], suites, PROBLEM, test_value="mutation", only_right=only_right)
        assert question.programs[0].suites[0].reward.adversarial == earned
        assert [p.reward for p in question.programs] == [1, 0, 0], "programs face the test all the same"


def test_the_papers_adv_of_right_tests_alone(pool):
    """Against ZERO, of K = 8: f(9) fails it, and counts if it states 1."""
    for stated, only_right, earned in ((1, True, 1 / 8), (0, False, 1 / 8), (0, True, 0)):
        (program,) = played(pool, [ZERO], [[f"assert f(9) == {stated}"]], PROBLEM, only_right=only_right).programs
        assert program.suites[0].reward.adversarial == earned
