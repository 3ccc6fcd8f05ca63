"""A round on linked lists and trees: prompts show how tests write them, and the judge takes them so."""

import json
from dataclasses import replace

import pytest
from scripted import TOKENIZER, scripted_game

from codea1_jax.common.errors import UserError
from codea1_jax.config import Template, Templates
from codea1_jax.config.prompts import BUILT_IN_TEMPLATES
from codea1_jax.game.export import question_record
from codea1_jax.game.round import play_round
from codea1_jax.game.tasks import task_of
from codea1_jax.game.tasks import test_messages as messages_for_tests
from data_pipeline import Problem
from sandbox import Task

RIGHT = """
def mirror(root: TreeNode | None) -> TreeNode | None:
    if root:
        root.left, root.right = mirror(root.right), mirror(root.left)
    return root
"""
WRONG = RIGHT.replace("mirror(root.left)", "root.left")
FUNCTION = Problem("mirror", "Write mirror(root), of a TreeNode.", RIGHT, "mirror", ())
SOLUTION = """
class Solution:
    def merge(self, lists: list[ListNode | None], root: "TreeNode") -> ListNode | None:
        return lists[0]
"""
CLASS = Problem("merge", "Write merge of class Solution.", SOLUTION, "Solution", (), task=Task.CLASS)
LIST, TREE = "a linked list is written as the list of its values: [1, 2, 3]", "values in level order, with None for a"
PLAIN = Problem("f", "Write f(x).", "def f(x):\n    return x", "f", ())


def asks(problem):
    suite = messages_for_tests(problem, RIGHT, 4, BUILT_IN_TEMPLATES)
    short = messages_for_tests(problem, None, 4, BUILT_IN_TEMPLATES, short=True)
    return [messages[-1]["content"] for messages in (suite, short)]


def program_asked(problem, templates=BUILT_IN_TEMPLATES):
    return task_of(problem).code_messages(problem, templates)[-1]["content"]


@pytest.mark.parametrize(("problem", "shown"), [(FUNCTION, (TREE,)), (CLASS, (LIST, TREE)), (PLAIN, ())])
def test_who_writes_tests_is_shown_how_lists_and_trees_are_written(problem, shown):
    for text in asks(problem):
        assert [each for each in (LIST, TREE) if each in text] == list(shown)


def test_who_writes_programs_is_shown_the_classes_that_are_given():
    definition = "class TreeNode:\n    def __init__(self, val=0, left=None, right=None):\n        self.val = val\n"
    assert definition in program_asked(FUNCTION) and "ListNode" not in program_asked(FUNCTION)
    assert all(f"class {name}" in program_asked(CLASS) for name in ("ListNode", "TreeNode"))
    assert "Node" not in program_asked(PLAIN)
    shown = replace(FUNCTION, question=f"Write mirror(root).\n# {definition}")
    assert program_asked(shown).count("class TreeNode") == 1
    assert definition in program_asked(FUNCTION, Templates(code=Template(user="{question}")))


def test_no_test_functions_are_asked_for():
    with pytest.raises(UserError, match="mirror: test functions are asked for functions alone"):
        task_of(FUNCTION).test_function_messages(FUNCTION, (), BUILT_IN_TEMPLATES)


def test_a_round_judges_trees_and_its_record_shows_them_as_lists(pool):
    suite = "assert mirror([1, 2]) == [1, None, 2]\nassert mirror([]) == []"
    hard = "assert mirror([1, 2, 3, 4]) == [1, 3, 2, None, None, None, 4]\nassert mirror([1]) == [2]"
    question = FUNCTION.question
    suites = {(question, program): [suite, hard] for program in (RIGHT, WRONG)}
    game = scripted_game(pool, {question: [RIGHT, WRONG]}, suites)
    (played,) = play_round(game, [FUNCTION], {}, (1,)).questions
    right, wrong = played.programs
    assert (right.reward, wrong.reward) == (1.0, 0.75)
    assert [suite.validated.invalid for suite in right.suites] == [0, 1]
    record = json.dumps(question_record(1, played, dict.fromkeys(("code", "test"), TOKENIZER.decode)))
    assert "mirror([1, 2, 3, 4])" in record and "[1, 3, 2, None, None, None, 4]" in record
