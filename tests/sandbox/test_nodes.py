"""Linked lists and trees: plain data outside, nodes inside, and nothing but a program's own value to lie about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_pipeline import Problem
from sandbox import CheckJob, Job, JudgeJob, Limits, SandboxPool, Status, Task, Test, classes, encode, nodes
from sandbox.inside import nodes as inside

VALUES = st.integers() | st.text(max_size=2)
LIMITS = Limits(call_seconds=2.0)
TREES = st.recursive(st.none(), lambda trees: st.tuples(VALUES, trees, trees), max_leaves=20)


def through(kind, function=lambda value: value):
    """A function of plain data around one of nodes of that kind."""
    names = {"f": function, "ListNode": inside.ListNode, "TreeNode": inside.TreeNode}
    inside.drive(names, "f", ({"value": kind}, kind))
    return names["f"]


def written(tree):
    """As LeetCode writes it: every child of every node, by its path from the root, the shortest first."""

    def places(tree, path):
        yield len(path), path, tree and tree[0]
        if tree:
            yield from places(tree[1], path + "0")
            yield from places(tree[2], path + "1")

    values = [value for _, _, value in sorted(places(tree, ""), key=lambda place: place[:2])]
    while values and values[-1] is None:
        values.pop()
    return values


def as_tuples(node):
    return node and (node.val, as_tuples(node.left), as_tuples(node.right))


@given(TREES)
def test_a_tree_is_made_of_its_list_and_read_as_it_was_written(tree):
    seen = []
    assert through("TreeNode", lambda root: seen.append(as_tuples(root)) or root)(written(tree)) == written(tree)
    assert seen == [tree]


@given(st.lists(st.lists(VALUES)))
def test_lists_are_linked_in_order_and_in_lists_of_them(lists):
    def items(node):
        return [] if node is None else [node.val, *items(node.next)]

    seen = []
    assert through(["ListNode"], lambda heads: seen.append([*map(items, heads)]) or heads[::-1])(lists) == lists[::-1]
    assert seen == [lists]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("TreeNode", value) for value in ([None], [1, None], [None, 1], [1, None, 2, None, None, 3], None, "ab")),
        *(("ListNode", value) for value in ([1, None, 2], [1, None], None, (1, 2), {1: 2}, 3)),
        *((["ListNode"], value) for value in (None, [None], ([1],), [1])),
    ],
)
def test_nothing_has_a_second_spelling(kind, value):
    with pytest.raises((TypeError, ValueError)):
        through(kind)(value)


def test_a_long_list_is_made_and_read():
    values = list(range(100_000))
    assert through("ListNode")(values) == values


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        *(
            (each, "ListNode")
            for each in (
                "ListNode",
                "Optional[ListNode]",
                "'ListNode'",
                "ListNode | None",
                "typing.Optional['ListNode']",
            )
        ),
        *((each, "TreeNode") for each in ("None | TreeNode", "Union[None, TreeNode]", "'Optional[TreeNode]'")),
        *((each, ["TreeNode"]) for each in ("list[TreeNode | None]", "List[Optional[TreeNode]]")),
        ("Optional[List[List[TreeNode]]]", [["TreeNode"]]),
        *((each, None) for each in ("int", "dict[str, ListNode]", "MyListNode", "Tuple[ListNode, int]")),
    ],
)
def test_the_annotations_of_the_reference_say_what_is_a_node(annotation, kind):
    for solution, name in (
        (f"def f(x: {annotation}) -> {annotation}: ...\n# ListNode", "f"),
        (f"class S:\n    def f(self, x: {annotation}) -> {annotation}: ...\n# ListNode", "S"),
    ):
        assert nodes.signatures(solution, name) == ({} if kind is None else {"f": ({"x": kind}, kind)})


def test_solutions_without_nodes_have_no_signatures():
    assert nodes.signatures("def f(x: ListNode: ...", "f") == {}
    assert nodes.signatures("def f(x: 'ListNode (') -> int: ...", "f") == {}
    assert nodes.signatures("def g(x: ListNode): ...\ndef f(x): ...", "f") == {}


# --- programs ----------------------------------------------------------------------------------------------------

REVERSE = """
def reverse(head: Optional[ListNode]) -> Optional[ListNode]:
    before = None
    while head:
        head.next, before, head = before, head, head.next
    return before
"""
REVERSED = Problem("reverse", "Reverse a list.", REVERSE, "reverse", ())
OWN = """
class ListNode:
    __slots__ = ("value", "next")
    def __init__(self, value):
        self.value, self.next = value, None
"""
PROPERTIES = """
class ListNode:
    def __init__(self, x=0): self._x, self._next = x, None
    val = property(lambda self: self._x)
    next = property(lambda self: self._next, lambda self, node: setattr(self, "_next", node))
"""
LIAR = """
class Any(int):
    def __eq__(self, other): return True
    def __hash__(self): return 0
    __repr__ = __str__ = lambda self: "3"
def reverse(head):
    head.val = Any(3)
    return head
"""
EVERYTHING = """
class ListNode:
    def __init__(self, *_): pass
    def __getattribute__(self, name): return self
def reverse(head): return head
"""
LONG = "def reverse(head):\n    for i in range(210_000): head = ListNode(i, head)\n    return head"
PATCHED = """
import sandbox.inside.nodes as nodes
nodes._read = lambda value, kind: [3, 2, 1]
nodes._made = lambda value, kind, names: value
def reverse(head): return head
"""


@pytest.mark.parametrize(
    ("program", "statuses"),
    [
        (REVERSE, "passed passed passed"),
        ("from __future__ import annotations\n" + REVERSE, "passed passed passed"),
        (OWN + REVERSE, "passed passed passed"),
        (PROPERTIES + REVERSE, "passed passed passed"),
        (
            "def reverse(h, rest=None):\n  return rest if h is None else reverse(h.next, ListNode(h.val, rest))",
            "passed " * 3,
        ),
        ("class Node:\n  next = None\ndef reverse(h):\n  return h", "failed passed passed"),
        ("def reverse(head): pass", "failed passed failed"),
        ("def reverse(head): return [3, 2, 1]", "raised raised raised"),  # no list of nodes, whatever is in it
        ("def reverse(head):\n  head.next = head\n  return head", "raised raised raised"),
        ("def reverse(head):\n  head.val = None\n  return head", "raised raised raised"),
        (LIAR, "not plain data|raised|not plain data"),
        (EVERYTHING, "raised passed raised"),
        (PATCHED, "passed failed failed"),  # it knows one answer, and may as well return it
        ("def reverse(head): return head\ndel ListNode", "raised passed raised"),
        ("ListNode = int\ndef reverse(head): return head", "raised passed raised"),
        ("def reverse(head: list) -> list: return head[::-1]", "raised raised raised"),
        ("x = 1", "raised raised raised"),
    ],
)
def test_programs_are_judged_by_the_lists_that_they_return(program, statuses, pool: SandboxPool):
    tests = tuple(Test(f"reverse({list(value)})", encode(value[::-1])) for value in ([1, 2, 3], [], [4]))
    (verdicts,) = pool.judge([JudgeJob(REVERSED.driven(program), tests, LIMITS, REVERSED.called)])
    expected = statuses.split("|") if "|" in statuses else statuses.split()
    assert [verdict.status.value for verdict in verdicts.tests] == expected


def test_a_list_that_is_too_long_is_no_value(jail: SandboxPool):
    job = JudgeJob(REVERSED.driven(LONG), (Test("reverse([])", "[]"),), LIMITS, REVERSED.called)
    assert jail.judge([job])[0].tests[0].detail == "ValueError: a cycle, or more than 200000 nodes"


SOLUTION = """
class Solution:
    def mirror(self, root: Optional[TreeNode]) -> Optional[TreeNode]:
        if root:
            root.left, root.right = self.mirror(root.right), self.mirror(root.left)
        return root
"""
MIRRORED = Problem("mirror", "mirror", f"from typing import Optional\n{SOLUTION}", "Solution", (), task=Task.CLASS)
SHARED = """
class Solution:
    def mirror(self, root):
        for _ in range(40):
            root = TreeNode(1, root, root)
        return root
"""


def mirror(values):
    return f"run_calls((), [('mirror', ({values},))])"


@pytest.mark.parametrize(
    ("program", "statuses"),
    [
        (MIRRORED.solution, ["passed", "passed"]),
        (SOLUTION.replace("Optional[TreeNode]", "int"), ["passed", "passed"]),  # what it claims is nobody's concern
        (
            SOLUTION.replace("self.mirror(root.left)", "root.left").replace("Optional[TreeNode]", "int"),
            ["failed", "passed"],
        ),
        (SHARED, ["raised", "raised"]),
        ("class Solution:\n    def mirror(self, root): return root.left.left", ["failed", "raised"]),
    ],
)
def test_methods_take_and_return_trees(program, statuses, pool: SandboxPool):
    tests = (Test(mirror([1, 2, 3, 4]), "[1, 3, 2, None, None, None, 4]"), Test(mirror([]), "[]"))
    (verdicts,) = pool.judge([JudgeJob(MIRRORED.driven(program), tests, LIMITS, classes.DRIVER, Task.CLASS)])
    assert [verdict.status.value for verdict in verdicts.tests] == statuses


def test_objects_are_made_of_trees(pool: SandboxPool):
    solution = """
class Walk:
    def __init__(self, root: "TreeNode"):
        self.left = [root]
    def step(self, most=1):
        node = self.left.pop()
        self.left += [each for each in (node.right, node.left) if each]
        return node.val
"""
    problem = Problem("walk", "step", solution, "Walk", (), task=Task.CLASS)
    call = "run_calls(([7, 3, 15],), [('step', ()), ('step', ())])"
    (execution,) = pool.execute([Job(problem.driven(solution), (call,), None, problem.called, task=Task.CLASS)])
    assert execution.outcomes[0].value == "3"


def test_calls_by_position_and_by_name_have_the_same_inputs(pool: SandboxPool):
    calls = ("reverse([1, 2])", "reverse(head=[1, 2])", "reverse([2, 1])", "reverse(['a', 'b'])", "reverse('ab')")
    (execution,) = pool.execute([Job(REVERSED.driven(REVERSE), calls, None, "reverse", is_reference=True)])
    first, second, third, letters, text = execution.outcomes
    assert first.inputs == second.inputs != third.inputs
    assert letters.value == '["b", "a"]' and text.status is Status.RAISED


def test_checks_call_programs_with_lists(jail: SandboxPool):
    check = "def check(candidate):\n    assert candidate((), [('mirror', ([1, 2, 3],))]) == [1, 3, 2]"
    programs = [MIRRORED.solution, "class Solution:\n    def mirror(self, root): return root"]
    results = jail.execute([CheckJob(MIRRORED.driven(each), check, MIRRORED.called) for each in programs])
    assert [result.passed for result in results] == [True, False]
    check = "assert reverse([1, 2]) == [2, 1] and reverse([]) == []"
    results = jail.execute([CheckJob(REVERSED.driven(each), check, "reverse") for each in (REVERSE, "reverse = id")])
    assert [result.passed for result in results] == [True, False]
