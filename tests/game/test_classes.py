"""Tests of classes: read from statements, and judged as calls of a function behind every program."""

from functools import partial

import pytest
from work import calls_of

from codea1_jax.config.prompts import BUILT_IN_TEMPLATES
from codea1_jax.game.tasks import classes as task
from codea1_jax.game.tasks import test_messages as messages_for_tests
from data_pipeline import Problem
from data_pipeline.golden import golden_tests_of_class, spelled
from sandbox import JudgeJob, Status, Task, Test, classes, encode

STACK = """
class Stack:
    def __init__(self, most=9):
        self.items, self.most = [], most

    def push(self, item):
        if len(self.items) < self.most:
            self.items.append(item)

    def pop(self):
        return self.items.pop()

    def all(self):
        return self.items
"""
QUESTION = "Write a class Stack(most=9) with push(item), pop() and all(); beyond `most` items push does nothing."
PROBLEM = Problem("stack", QUESTION, STACK, "Stack", (), task=Task.CLASS)


def read(text):
    suite = task.suite_in(text, PROBLEM)
    return [(test.call, test.stated) for test in suite.tests], [each.text for each in suite.rejected]


def call(made, *calls):
    return f"run_calls({made}, [{', '.join(calls)}])"


@pytest.mark.parametrize(
    ("text", "tests"),
    [
        ("assert Stack().all() == []", [(call("()", "('all', ())"), "[]")]),
        ("s = Stack(2)\ns.push(1)\nassert s.pop() == 1", [(call("(2,)", "('push', (1,))", "('pop', ())"), "1")]),
        (
            "s = Stack()\nx = [1, 2]\ns.push(x)\ny = s.pop()\nassert y == [1, 2]\nassert len(s.all()) == 0",
            [
                (call("()", "('push', ([1, 2],))", "('pop', ())"), "[1, 2]"),
                ("len(run_calls((), [('push', ([1, 2],)), ('pop', ()), ('all', ())]))", "0"),
            ],
        ),
        (
            "def one():\n  s = Stack()\n  assert s.all() == []\ndef two():\n  s = Stack(1)\n  assert [] == s.all()",
            [(call("()", "('all', ())"), "[]"), (call("(1,)", "('all', ())"), "[]")],
        ),
        ("s = Stack()\ns = Stack(1)\nassert s.all() == []", [(call("(1,)", "('all', ())"), "[]")]),
    ],
)
def test_an_assert_is_a_test_with_all_that_was_done_to_its_object(text, tests):
    assert read(text) == (tests, [])


@pytest.mark.parametrize(
    "text",
    [
        "s = Stack()\nassert s.items == []",
        "s = Stack()\nassert s.__init__() == None",
        "s = Stack()\nassert s.push(item=1) == None",
        "s = Stack(*[1])\nassert s.all() == []",
        "s = Stack()\nt = s\nassert s.all() == []",
        "s = Stack()\nfor i in range(3):\n    s.push(i)\nassert s.all() == [0, 1, 2]",
        "s = Stack()\nother(s)\nassert s.all() == []",
        "s = Stack()\nassert s == Stack()",
        "assert Queue().all() == []",
        "s = Stack()\nassert s.pop() == s.pop()",
        "assert run_calls((), [('_secret', ())]) == 1",
        "s = Stack()\ns.push(1).push(2)\nassert s.all() == [1, 2]",
        "s = Stack()\nx = [1]\ns.push(x)\nx.append(2)\nassert s.all() == [[1, 2]]",
        "s = Stack()\ns.all().append(3)\nassert s.all() == [3]",
        "s = Stack()\na = 1\ns.push(a + 1)\nassert s.all() == [2]",
        "s = Stack()\nf = lambda: s.push(1)\nassert s.all() == []",
        "s = Stack()\nTrue or s.push(1)\nassert s.all() == []",
        "s = Stack()\n[s.push(1) for _ in range(3)]\nassert s.all() == [1, 1, 1]",
        "s = Stack()\nassert [s.pop() for _ in range(1)] == [1]",
        "s = Stack()\ntry:\n    s.push(1)\nfinally:\n    assert s.all() == [1]",
    ],
)
def test_what_the_judge_could_not_repeat_is_no_test(text):
    tests, rejected = read(text)
    assert tests == [] and len(rejected) == 1


@pytest.mark.parametrize(
    ("text", "tests"),
    [
        # a rebound name keeps what it was when it was given
        ("a = 1\ns = Stack()\ns.push(a)\na = 5\nassert s.pop() == 1", ["run_calls((), [('push', (1,)), ('pop', ())])"]),
        ("s = Stack()\nassert s.pop() == 1, s.push(2)\nassert s.all() == []", ["run_calls((), [('pop', ())])"]),
        ("for x in [1]:\n    s = Stack()\n    s.push(x)\n    assert s.pop() == x", []),  # a suite knows no loop
        ("x = Stack()\n" + "x = x.next(x)\n" * 40 + "assert x.all() == []", []),
        ("s = Stack()\nx = s.pop()\n" + "x = s.next(x)\n" * 40 + "assert s.all() == []", []),
    ],
)
def test_histories_are_those_of_python(text, tests):
    assert [call for call, _ in read(text)[0]] == tests


def test_golden_tests_in_loops_are_those_of_each_turn():
    text = "def test():\n  x = 7\n  for x in [1, 2]:\n    s = Stack()\n    s.push(x)\n    assert s.pop() == x"
    assert golden_tests_of_class(text, "Stack") == tuple(
        f"assert run_calls((), [('push', ({x},)), ('pop', ())]) == {x}" for x in (1, 2)
    )


def test_a_test_is_read_as_it_was_spelled():
    text = "s = Stack(2)\ns.push('a')\ns.push([1])\nassert sorted(s.all()) == ['a']\nassert Stack().pop() == None"
    for test in task.suite_in(text, PROBLEM).tests:
        assert task.suite_in(spelled(test, PROBLEM), PROBLEM).tests == (test,)
    assert spelled(task.suite_in(text, PROBLEM).tests[1], PROBLEM) == "assert Stack().pop() == None"


def test_long_histories_and_deep_nests_cost_little():
    pushes = "s.push(1)\n" * 2_000
    tests, rejected = read(f"s = Stack()\n{pushes}assert s.all() == []\nassert Stack().all() == []")
    assert len(tests) == 1 and len(rejected) == 1
    assert read("if x:\n  pass\n" + "elif x:\n  pass\n" * 3_000)[0] == []


def test_blocks_within_blocks_are_read_to_a_depth():
    def tests(depth):
        lines = [" " * i + "if x:" for i in range(depth)]
        return read("\n".join([*lines, " " * depth + "assert Stack().all() == []"]))[0]

    assert [len(tests(depth)) for depth in (1, classes.MAX_DEPTH, classes.MAX_DEPTH + 1, 90)] == [1, 1, 0, 0]


LIAR = """
class Any:
    def __eq__(self, other): return True
    def __getattribute__(self, name): return lambda *a: self

class Stack(Any):
    def __init__(self, *a): pass
"""
LIST = """
class Stack(list):
    __class__ = int
    def __init__(self, *a): pass
    def __getattr__(self, name): return lambda *a: self
    push = all = pop = lambda self, *a: self
"""
FIRST, LAST, BOTH = "('push', (1,))", "('pop', ())", "('push', (2,))"


@pytest.mark.parametrize(
    ("program", "passed"),
    [
        (STACK, [True, True, True]),
        (STACK.replace("pop()", "pop(0)"), [True, False, True]),
        (STACK.replace("<", "<="), [True, True, False]),
        ("class Stack:\n    pass", [False] * 3),
        ("def run_calls(made, calls):\n    return 1\n" + STACK.replace("pop()", "pop(0)"), [True, False, True]),
        # objects that claim to be equal, and classes that lie about what they are
        (LIAR, [False] * 3),
        (LIST, [False] * 3),
        ("Stack = lambda *a: 1", [False] * 3),
        (STACK + "\nraise SystemExit", [False] * 3),
        (STACK + "\n#", [True, True, True]),
    ],
)
def test_programs_are_judged_by_what_their_objects_return(program, passed, pool):
    tests = (
        Test(call("()", FIRST, LAST), encode(1)),
        Test(call("()", FIRST, BOTH, LAST), encode(2)),
        Test(call("(1,)", FIRST, BOTH, "('all', ())"), encode([1])),
    )
    job = JudgeJob(PROBLEM.driven(program), tests, None, classes.DRIVER, Task.CLASS)
    assert [verdict.passed for verdict in pool.judge([job])[0].tests] == passed


def test_each_test_has_a_class_of_its_own(pool):
    program = (
        "class Stack:\n    made = []\n    def push(self, x): self.made.append(x)\n    def all(self): return self.made"
    )
    tests = tuple(Test(call("()", f"('push', ({x},))", "('all', ())"), encode([x])) for x in (1, 2))
    (verdicts,) = pool.judge([JudgeJob(PROBLEM.driven(program), tests, None, classes.DRIVER, Task.CLASS)])
    assert [verdict.status for verdict in verdicts.tests] == [Status.PASSED] * 2


def test_only_methods_that_the_question_names_are_allowed():
    assert task.is_allowed(PROBLEM, call("()", FIRST, LAST))
    assert not task.is_allowed(PROBLEM, call("()", "('peek', ())"))


def test_prompts_state_the_form_in_which_suites_are_read():
    _, user = messages_for_tests(PROBLEM, STACK, 3, BUILT_IN_TEMPLATES)
    form = user["content"].partition("# Format")[2].partition("form\n")[2].replace("\nWhere one call is enough: ", "\n")
    suite = task.suite_in(form.replace("arguments", "1").replace("expected_value", "2"), PROBLEM)
    assert [test.call for test in suite.tests] == [
        call("(1,)", "('method', (1,))", "('method', (1,))"),
        call("(1,)", "('method', (1,))"),
    ]


def test_methods_are_those_that_the_question_writes_as_code_or_golden_tests_call():
    prose = "Write a class Tally. Its `add` takes a word; count the hits and return the most frequent. Use t.reset()."
    problem = Problem("tally", prose, "", "Tally", (f"assert {call('()', FIRST)} == 1",), task=Task.CLASS)
    allowed = [name for name in ("add", "reset", "push", "count", "hits", "most") if is_called(problem, name)]
    assert allowed == ["add", "reset", "push"]


def is_called(problem, name):
    return task.is_allowed(problem, call("()", f"({name!r}, ())"))


@pytest.mark.parametrize(
    "uses", ["assert S(x).f({many})==0\n", "s = S(x)\nr = s.f(x)\n{r}", "s = S()\n{calls}assert s.f()==0\n"]
)
def test_reading_a_suite_takes_time_in_proportion_to_its_length(uses):
    """Names that stand for much, used many times, cost no more than the bound on what they stand for."""

    def work(size):
        parts = {"many": "x," * (size // 4), "r": "assert r==1\n" * (size // 24), "calls": "s.f(x)\n" * (size // 14)}
        text = f"x=[{'0,' * (size // 4)}]\n" + uses.format(**parts)
        return calls_of(partial(task.suite_in, text, PROBLEM))

    assert work(24_000) < 20 * max(work(2_400), 3_000)
