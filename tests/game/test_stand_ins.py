"""Questions whose solution nobody knows: programs that pass the golden tests stand in for it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_group import played

from codea1_jax.config import Config, RewardConfig, load
from codea1_jax.game.config import RoundConfig
from codea1_jax.game.judging import judge_group
from codea1_jax.game.rollouts import Candidate, QuestionRollout, Response, WrittenSuite
from codea1_jax.game.suites import SuiteRules
from codea1_jax.game.tasks import stream as task
from codea1_jax.game.validation import unanimous
from data_pipeline import Problem
from data_pipeline.golden import stream_line
from sandbox import FEW_ULPS, Outcome, SandboxPool, Status, Task, Test
from sandbox.streams import spelled

SOLUTION = "def f(x):\n    return 1 if x > 3 else 0"
REWRITTEN = "def f(x):\n    return int(x > 3)"
BOUNDARY = "def f(x):\n    return 1 if x >= 3 else 0"
ZERO = "def f(x):\n    return 0"
BROKEN = "raise ValueError"
GOLDEN = ("assert f(0) == 0", "assert f(9) == 1")
UNSOLVED = Problem("p", "def f(x): ...", "", "f", GOLDEN)
SUITES = [["assert f(4) == 1\nassert f(3) == 0"], ["assert f(3) == 1"], ["assert f(2) == 0\nassert f(8) == 0"]]


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=2) as pool:
        yield pool


def suites(question: QuestionRollout) -> list[list[tuple[list[str], int, float]]]:
    """Of every suite: the answers that are expected of its kept tests, how many are invalid, and adv."""
    return [
        [([t.expected for t in s.validated.kept], s.validated.invalid, s.reward.adversarial) for s in p.suites]
        for p in question.programs
    ]


def stood_in(pool: SandboxPool, *programs: str, problem: Problem = UNSOLVED) -> QuestionRollout:
    return played(pool, programs, SUITES[: len(programs)], problem, reference="stand_ins")


def returned(value: str | None) -> Outcome:
    return Outcome(Status.RAISED) if value is None else Outcome(Status.RETURNED, value)


# --- what programs agree on -----------------------------------------------------------------------------------

VALUES = st.lists(st.sampled_from(["1", "2", None]), max_size=4)


def test_a_call_gives_the_value_that_all_programs_return():
    assert unanimous([returned("1"), returned("1")], "f(1)") == Outcome(Status.RETURNED, "1", inputs="f(1)")
    assert unanimous([returned("0.3"), returned("0.30000000000000004")], "f(1)", FEW_ULPS).value == "0.3"
    for disagreeing in ([], ["1", "2"], ["1", None], [None], ["nan"]):
        assert unanimous([returned(value) for value in disagreeing], "f(1)").value is None


@given(VALUES, st.randoms())
def test_programs_agree_in_any_order_and_one_more_never_makes_them_agree(values, rng):
    outcome = unanimous([returned(value) for value in values], "f(1)")
    assert unanimous([returned(value) for value in rng.sample(values, len(values))], "f(1)") == outcome
    if values and outcome.value is None:
        assert unanimous([returned(value) for value in [*values, "1"]], "f(1)") == outcome


# --- groups that were judged ----------------------------------------------------------------------------------


def test_a_program_that_passes_the_golden_tests_stands_in_for_the_solution(pool):
    question = stood_in(pool, SOLUTION, ZERO, BROKEN)
    # ZERO fails f(9); what SOLUTION returns is expected, also where a suite states something else: invalid, yet kept.
    # A golden test fails of two (ZERO), and both of BROKEN: adv = (failing/8 - failing golden + 1)/2
    assert suites(question) == [
        [(["1", "0"], 0, 1 / 2)],
        [(["0"], 1, (0 - 1 / 2 + 1) / 2)],
        [(["0", "1"], 1, (2 / 8 - 1 + 1) / 2)],
    ]
    assert [p.reward for p in question.programs] == [1, (1 + 1 / 2) / 2, 0]
    assert [test.call for test in question.retrieved] == ["f(0)", "f(9)"]
    assert question.page_after == {}  # golden tests are not the book's


def test_tests_on_which_stand_ins_disagree_are_invalid_and_dropped(pool):
    question = stood_in(pool, SOLUTION, BOUNDARY, ZERO)
    assert suites(question) == [
        [(["1"], 1, (0 - 0 + 1) / 2)],  # f(3) is 0 or 1
        [([], 1, 0)],
        [(["0", "1"], 1, (1 / 8 - 1 / 2 + 1) / 2)],
    ]


def test_where_no_program_passes_the_golden_tests_the_question_teaches_the_test_llm_nothing(pool):
    question = stood_in(pool, ZERO, ZERO, BROKEN)
    assert [s.validated.kept for p in question.programs for s in p.suites] == [()] * 3
    assert {s.reward.reward for p in question.programs for s in p.suites} == {0}
    assert [p.reward for p in question.programs] == [1 / 2, 1 / 2, 0]  # and the Code LLM the golden tests alone


def test_without_a_golden_test_nothing_stands_in(pool):
    question = stood_in(pool, SOLUTION, SOLUTION, problem=replace(UNSOLVED, golden_tests=()))
    assert [s.validated.kept for p in question.programs for s in p.suites] == [(), ()]


def test_stand_ins_that_are_right_make_the_same_of_suites_as_the_solution(pool):
    solved = replace(UNSOLVED, solution=SOLUTION)
    golden = (Test("f(0)", "0"), Test("f(9)", "1"))
    with_solution = played(pool, [REWRITTEN, ZERO, BROKEN], SUITES, solved, golden)
    assert suites(stood_in(pool, REWRITTEN, ZERO, BROKEN)) == suites(with_solution)
    # A solution that there is counts for nothing.
    wrong = replace(UNSOLVED, solution=ZERO)
    assert suites(stood_in(pool, REWRITTEN, ZERO, BROKEN, problem=wrong)) == suites(with_solution)


def test_a_program_cannot_hold_its_own_calls_to_be_others(pool):
    # Two spellings of one call count twice, since no program is believed about its inputs.
    texts = [["assert f(4) == 1\nassert f(2 + 2) == 1\nassert f(4) == 1"]]
    (program,) = played(pool, [SOLUTION], texts, UNSOLVED, reference="stand_ins").programs
    assert ([t.call for t in program.suites[0].validated.kept], program.suites[0].validated.invalid) == (
        ["f(4)", "f(2 + 2)"],
        1,
    )


def test_discrimination_takes_stand_ins_for_right(pool):
    programs = [REWRITTEN, ZERO]
    question = played(pool, programs, SUITES[:2], UNSOLVED, reference="stand_ins", test_value="discrimination")
    # ZERO alone is wrong: f(4) fails it, f(3) does not
    assert [[s.reward.adversarial for s in p.suites] for p in question.programs] == [[1], [0]]


def test_programs_that_read_standard_input_stand_in_too(pool):
    problem = Problem("s", "Double a number.", "", "", (stream_line("2\n", "4"),), task=Task.STREAM)
    config = RoundConfig(rewards=RewardConfig(reference="stand_ins"))
    texts = ["print(int(input()) * 2)", "print(int(input()) ** 2)", "print(0)"]
    suite = task.suite_in(spelled("3\n", "6") + spelled("0\n", "0"), problem, SuiteRules(most=4))
    group = [Candidate(Response(t), t, i, (WrittenSuite(Response(""), suite),)) for i, t in enumerate(texts)]
    for count, kept in ((1, ["3\n", "0\n"]), (2, ["0\n"]), (3, ["0\n"])):
        judgement = judge_group(pool, problem, group[:count], (), config)
        assert [test.call for test in judgement.suites[0][0].kept] == kept


def test_a_solution_that_is_not_run_still_says_how_it_is_called(pool):
    solution = "def last(head: ListNode | None) -> int | None:\n    return 0"
    right = "def last(head):\n    while head.next:\n        head = head.next\n    return head.val"
    problem = Problem("n", "Write last(head), of a ListNode.", solution, "last", ("assert last([1, 2]) == 2",))
    suites = [["assert last([3]) == 3"], ["assert last([]) == None"]]
    question = played(pool, [right, "def last(head):\n    return head.val"], suites, problem, reference="stand_ins")
    assert [[len(s.validated.kept) for s in p.suites] for p in question.programs] == [[1], [0]]
    assert [p.reward for p in question.programs] == [1, 0]


def test_the_preset_differs_from_a1_in_nothing_else():
    a1, own = load(Config, "micro/a1"), load(Config, "micro/a1_no_reference")
    rewards = own.rewards.model_copy(update={"reference": "solution"})
    assert own.model_copy(update={"rewards": rewards, "run": a1.run}) == a1
