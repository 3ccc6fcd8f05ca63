"""Attacks on the rewards that once succeeded."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from judged_group import PROBLEM, RIGHT, played

from codea1_jax.game.mistake_book import retrieved, updated
from codea1_jax.game.suites import extract_suite
from codea1_jax.game.validation import validate_suite
from data_pipeline import Problem
from data_pipeline.imports import runnable
from sandbox import Limits, Outcome, SandboxPool, Status

LIMITS = Limits(call_seconds=0.3, load_seconds=0.8, program_seconds=4.0, wall_factor=5.0, memory_mb=256)
WRONG = "def f(x, y=0):\n    return [0, 0]"


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=2, limits=LIMITS) as pool:
        yield pool


def suite(*tests: str) -> str:
    return "\n".join(f"assert {test}" for test in tests)


def test_a_suite_that_knows_nothing_of_the_problem_earns_nothing(pool):
    for problem in (PROBLEM, Problem("q", "?", "def f(x):\n    return 'abc' * x", "f", ())):
        text = suite(*[f"len(str(f({i}))[0]) == 1" for i in range(1, 9)])
        (program,) = played(pool, [RIGHT], [[text]], problem).programs
        assert program.suites[0].reward.reward == 0


def test_a_program_that_is_the_reference_passes_every_valid_test(pool):
    program = "def f(x):\n    return x"
    problem = replace(PROBLEM, solution=program)
    texts = [suite(*[f"f([{i}, str(zip())]) == 1" for i in range(8)]), suite("f(1) == 1", "f(2) == 2")]
    for p in played(pool, [program, program], [texts, texts[:1]], problem).programs:
        assert [v.passed for s in p.suites for v in s.verdicts] == [True] * sum(len(s.verdicts) for s in p.suites)
        assert p.suites[0].reward.adversarial == 0


def test_a_weak_test_does_not_stand_in_for_a_strong_one_in_the_pool(pool):
    problem = replace(PROBLEM, solution="def f(x):\n    return [2, 2]")
    wrong = "def f(x):\n    return [0, 7]"
    weak, strong = suite("len(f(5)) == 2"), suite("f(5)[0] == 2")  # the same inputs, and the same value
    (alone,) = played(pool, [wrong], [[strong]], problem, pool_tests=True, passing="all").programs
    (joined,) = played(pool, [wrong], [[weak, strong]], problem, pool_tests=True, passing="all").programs
    assert alone.reward == joined.reward == 0.0


def test_a_weak_test_does_not_stand_in_for_a_strong_one_in_the_book():
    returned = [Outcome(Status.RETURNED, "2", inputs='{"x": 5}')]
    ((weak,), (strong,)) = (validate_suite([call], returned, ["2"]).kept for call in ("len(f(5))", "f(5)[0]"))
    page = updated({weak: 1}, [], [strong])
    assert {test.call for test in retrieved(page)} == {"len(f(5))", "f(5)[0]"}


def eight(call: str, answer: object = 0) -> str:
    """Eight tests on different inputs."""
    return suite(*[f"{call.format(i=i)} == {answer}" for i in range(1, 9)])


def test_shared_credit_is_not_raised_without_finding_more(pool):
    problem = replace(PROBLEM, mutants=("def f(x, y=0):\n    return [x, x]", "def f(x, y=0):\n    return [x + y, 1]"))
    adds, keeps = suite("f(1, 2) == [3, 1]"), suite("f(2) == [2, 2]")  # one kills the first mutant, one the second

    def earned(*texts: str) -> list[float]:
        (program,) = played(pool, [RIGHT], [texts], problem, test_value="shared", only_right=True).programs
        return [each.reward.adversarial for each in program.suites]

    assert earned(adds, keeps) == [1, 1]
    assert earned(adds, suite("f(1) == [1, 1]")) == [1, 0], "a call on which all mutants agree finds nothing"
    assert earned(adds, adds) == [0.5, 0.5], "a copy halves"
    respelled = suite(*[f"f({one}, 2) == [3, 1]" for one in ("1", "0 + 1", "int('1')", "len('a')")])
    assert earned(respelled, keeps) == [1, 1], "spellings of one input count once"
    assert sum(earned(f"{adds}\n{keeps}", f"{adds}\n{keeps}")) == sum(earned(adds, keeps)), "the sum is what is found"
    assert earned(suite("f(1, 2) == [3, 2]"), keeps) == [0, 1], "nor does a wrong answer earn"
    texts = [[f"éé\n{adds}", adds]]
    (program,) = played(pool, [RIGHT], texts, problem, test_value="shared", only_right=True).programs
    assert program.suites[0].advantage < program.suites[1].advantage, "unprintable characters cost"


ATTACKS = yaml.safe_load(Path(__file__).with_name("attacks_on_rewards.yaml").read_text())
KINDS_OF_DICT = [
    ("defaultdict", "defaultdict(int, {c: 1 for c in x})"),
    ("OrderedDict", "OrderedDict((c, 1) for c in x)"),
    ("Counter", "Counter(dict.fromkeys(x))"),
    ("deque", "{c: 1 for c in x}"),
]


@pytest.mark.parametrize("kind", ATTACKS["right_programs"])
def test_no_test_fails_a_right_program_for_what_its_question_does_not_state(pool, kind):
    reference, right, call = ATTACKS["right_programs"][kind].values()
    programs = [right.format(*each) for each in KINDS_OF_DICT] if "{0}" in right else [right]
    for solution, judged in ((reference, programs), (programs[0], [reference])):
        problem = replace(PROBLEM, solution=solution, question="Return what the list gives.")
        rollout = played(pool, judged, [[eight(call)]] * len(judged), problem)
        assert all(program.valid for program in rollout.programs)
        ends = [verdict.status.value for program in rollout.programs for verdict in program.suites[0].verdicts]
        assert set(ends) <= {"passed"}


@pytest.mark.parametrize("kind", ATTACKS["respellings"])
def test_one_bug_in_many_spellings_of_an_input_counts_once(pool, kind):
    reference, wrong, calls = ATTACKS["respellings"][kind].values()
    texts = [suite(*[f"{call} == 5" for call in calls])]
    (program,) = played(pool, [wrong], [texts], replace(PROBLEM, solution=reference)).programs
    assert program.suites[0].reward.adversarial <= 1 / 8


def test_different_inputs_with_one_result_stay_different_tests(pool):
    reference = "def f(d):\n    return isinstance(d, dict) and d['a'] > 0 and d['b'] > 0"
    calls = [
        f"f({{'a': {a}, 'b': {b}}})" for a, b in ((0, 1), (-1, 1), (1, 0), (1, -1), (2, -2), (-2, 2), (0, 0), (-1, -1))
    ]
    (program,) = played(
        pool,
        ["def f(d):\n    return True"],
        [[suite(*[f"{call} == False" for call in calls])]],
        replace(PROBLEM, solution=reference),
    ).programs
    assert program.suites[0].reward.adversarial == 1


@pytest.mark.parametrize(
    "question", ["def f(x, y=0):", "Write f(x, y) that ...", "class S:\n    def f(self, x, y=0) -> int:"]
)
def test_a_question_that_states_the_names_allows_calls_by_name(pool, question):
    texts = [suite("f(x=1) == [1, 1]", "f(2, y=3) == [5, 2]", "f(3, 4) == [7, 3]")]
    (program,) = played(pool, [RIGHT], [texts], replace(PROBLEM, question=question)).programs
    assert len(program.suites[0].validated.kept) == 3


BUSY = """
import time
t = time.process_time()
while time.process_time() - t < {seconds}:
    pass
"""


def test_a_long_sibling_suite_leaves_a_program_that_loads_slowly_its_time(pool):
    slow = BUSY.format(seconds=0.6) + RIGHT
    honest, long = suite("f(1) == [1, 1]"), suite(*[f"f({i}) == [{i}, {i}]" for i in range(10, 18)])
    (program,) = played(pool, [slow], [[long, honest]]).programs
    assert [v.status.value for v in program.suites[1].verdicts] == ["passed"]
    assert all(v.passed for v in program.suites[0].verdicts)


def test_the_time_of_the_references_loading_costs_a_suite_no_tests(pool):
    problem = replace(PROBLEM, solution=BUSY.format(seconds=0.25) + RIGHT)
    texts = [suite(*[f"f({i}) == [{i}, {i}]" for i in range(8)])]
    (program,) = played(pool, [RIGHT], [texts], problem).programs
    assert len(program.suites[0].validated.kept) == 8


@pytest.mark.parametrize("first", ['"doc"\rdef f(x):\n    return x', '"doc"; T = (\n    1)\ndef f(x):\n    return x'])
def test_imports_put_in_front_of_a_program_do_not_break_it(first):
    names: dict = {}
    exec(runnable(first, replace(PROBLEM, question="import math")), names)
    assert names["f"](1) == 1


@pytest.mark.parametrize("change", ["x += 1", "x, z = 4, 5", "x: int = 4", "del x"])
def test_a_name_that_changes_after_it_was_bound_does_not_keep_its_old_value(change):
    found = extract_suite(f"```python\nx = 3\n{change}\nassert f(x) == 4\n```", "f")
    assert "f(3)" not in [test.call for test in found.tests]
