"""What the two models are told: everything that the original tells them, and nothing that is not so."""

import pytest

from codea1_jax.config import Config, load
from codea1_jax.game.prompts import BRANCHES, SUSPECT, code_messages
from codea1_jax.game.prompts import test_messages as suite_messages

QUESTION = "Add one.\n>>> f(1)\n2"
PROGRAM = "def f(x):\n    return x"


def told(messages):
    assert [message["role"] for message in messages] == ["system", "user"]
    return messages[1]["content"]


def test_the_code_llm_is_asked_for_the_whole_function_in_one_block_and_nothing_else():
    text = told(code_messages(QUESTION, "f"))
    for part in ("Complete the function `f`", "whole function", "one ```python block", "nothing outside", QUESTION):
        assert part in text


def test_the_test_llm_is_told_its_role_three_strategies_the_form_and_that_only_the_first_count():
    text = told(suite_messages("Add one.", "f", PROGRAM, 6))
    for part in (
        *("inputs on which a program and the problem's requirements disagree", "6 different tests"),
        *("1. boundary and extreme", "2. inputs that follow the program's own branches", "3. larger, structured"),
        *("Only the first 6 count", "strongest first", "Add one.", SUSPECT, f"```python\n{PROGRAM}\n```"),
        *("One ```python block", "one test a line", "assert f(arguments) == expected_value"),
    ):
        assert part in text


def test_without_a_program_there_is_none_to_follow_and_without_answers_only_calls_are_wanted():
    black_box = told(suite_messages("Add one.", "f", None, 8))
    assert BRANCHES not in black_box
    assert "Program" not in black_box
    assert "2. larger, structured" in black_box
    calls = told(suite_messages("Add one.", "f", PROGRAM, 8, answers=False))
    assert calls.endswith("\nf(arguments)")
    assert "assert" not in calls
    assert "one call a line" in calls


@pytest.mark.parametrize("program", [PROGRAM, None])
def test_the_short_prompt_suspects_nobody(program):
    text = told(suite_messages("Add one.", "f", program, 8, short=True))
    assert "8 different tests" in text
    assert "assert f(arguments) == expected_value" in text
    for word in ("wrong", "bug", "fail", "disagree", "1. "):
        assert word not in text


@pytest.mark.parametrize(("preset", "short"), [("1.5b/a1", False), ("1.5b/sft", True), ("1.5b/a1_from_sft", True)])
def test_sft_and_what_starts_from_it_are_asked_shortly(preset, short):
    assert load(Config, preset, ()).method.asks_shortly == short
