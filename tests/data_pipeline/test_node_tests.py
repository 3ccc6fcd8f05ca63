"""Golden tests of lists and trees: what pytest code makes of nodes, as lists, which the solution must then pass."""

from pathlib import Path

import pytest
from program_files import read_programs

from data_pipeline import Problem
from data_pipeline.problem_files import FORMAT
from data_pipeline.sources import find_format
from data_pipeline.validate import failures
from sandbox import SandboxPool

REVERSE, MIRROR, DEPTH, HELPERS = read_programs(Path(__file__).with_name("node_tests.txt"))[""].values()


def problem_of(solution: str, tests: str) -> Problem:
    body = "".join(f"    {line}\n" for line in tests.split("\n"))
    row = {"question_id": "q", "question": "?", "solution": solution, "test_info": None}
    row["test_code"] = f"{HELPERS}\ndef test_it():\n{body}"
    row_format = find_format([row])
    assert row_format is not None
    (problem,) = row_format.read([row]).problems
    return problem


@pytest.mark.parametrize(
    ("solution", "tests", "golden", "shown"),
    [
        (
            REVERSE,
            "assert to_list(reverse(build([1, 2]))) == [2, 1]\nhead = build([3])\n"
            "assert to_list(reverse(head)) == [3]\nassert to_list(reverse(None)) == []\nassert reverse(None) is None\n"
            "assert to_list(reverse(ListNode(1, ListNode(2, next=ListNode('a'))))) == ['a', 2, 1]",
            [
                "reverse([1, 2]) == [2, 1]",
                "reverse([3]) == [3]",
                "reverse([]) == []",
                "reverse([1, 2, 'a']) == ['a', 2, 1]",
            ],
            "def reverse(head: ListNode) -> ListNode:",
        ),
        (
            MIRROR,
            "assert mirror(TreeNode(1, right=TreeNode(2))) == TreeNode(1, TreeNode(2))\nassert mirror(None) == None\n"
            "root = TreeNode(1, TreeNode(2), TreeNode(3, None, TreeNode(4)))\n"
            "assert mirror(root) == TreeNode(1, TreeNode(3, TreeNode(4)), TreeNode(2))\n"
            "assert mirror(grow([5])) is not None",
            [
                *("mirror([1, None, 2]) == [1, 2]", "mirror([]) == []"),
                *("mirror([1, 2, 3, None, None, None, 4]) == [1, 3, 2, 4]", "bool(mirror([5]) is not None) == True"),
            ],
            "def mirror(root: TreeNode) -> TreeNode:",
        ),
        (
            DEPTH,
            "assert depth(None) == 0\nassert depth(TreeNode(1, TreeNode(2)), 3) == 5\nassert depth(grow([]), 2) == 2",
            ["depth([]) == 0", "depth([1, 2], 3) == 5", "depth([], 2) == 2"],
            "def depth(root: TreeNode, start: int=0) -> int:",
        ),
        (
            DEPTH,
            "assert depth(TreeNode(1)) == 1\nroot = TreeNode(1)\nroot.left = TreeNode(2)\nassert depth(root) == 2\n"
            "node = TreeNode(3)\nassert depth(TreeNode(1, node)) == 2\nassert depth(TreeNode(1, other)) == 2\n"
            "assert depth(TreeNode(None)) == 1\nassert depth(TreeNode()) == 1",
            ["depth([1]) == 1", "depth([1, 3]) == 2"],
            "def depth(root: TreeNode, start: int=0) -> int:",
        ),
        (
            "def same(x, y):\n    return x is y or x == y",
            "# no ListNode\nx = [1]\nassert same(x, None) is False\nassert same(None, None) == True",
            ["same([1], None) == False", "same(None, None) == True"],
            "def same(x, y):",
        ),
    ],
)
def test_nodes_are_read_as_lists_and_what_is_unclear_is_no_test(solution, tests, golden, shown):
    problem = problem_of(solution, tests)
    assert list(problem.golden_tests) == [f"assert {each}" for each in golden]
    assert problem.question == f"?\n\n{shown}"
    if problem.signatures:
        with SandboxPool(workers=1) as pool:
            assert failures([problem], pool) == [None]


def test_rows_of_your_own_write_lists():
    row = {
        "id": "m",
        "question": "?",
        "entry_point": "mirror",
        "solution": MIRROR.replace("root)", "root: TreeNode)", 1),
    }
    rows = [row | {"tests": ["assert mirror([1, 2]).val == 1", "assert mirror([]) == None"]}]
    rows += [row | {"id": "n", "tests": ["assert mirror(None) == None"]}]
    loaded = FORMAT.read(rows)
    assert [problem.golden_tests for problem in loaded.problems] == [
        ("assert mirror([]) == None",),
        ("assert mirror(None) == None",),
    ]
    assert len(loaded.dropped) == 1
    with SandboxPool(workers=1) as pool:
        right, wrong = failures(loaded.problems, pool)
    assert right is None
    assert wrong is not None and "lists and trees are written as lists, not as NoneType" in wrong
