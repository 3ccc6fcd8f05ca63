"""What the two models are told: everything that the original tells them, and nothing that is not so."""

import pytest

from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, PromptsConfig, Template, Templates, load
from codea1_jax.config.prompts import BUILT_IN_TEMPLATES
from codea1_jax.game.tasks import function
from codea1_jax.game.tasks import test_messages as messages_for_tests
from codea1_jax.game.tasks.asking import BRANCHES, SUSPECT
from data_pipeline import Problem

QUESTION = "Add one.\n>>> f(1)\n2"
PROGRAM = "def f(x):\n    return x"


def problem(question, solution="", source=""):
    return Problem("p", question, solution, "f", (), source=source)


def suite_messages(question, program, suite_size, templates=BUILT_IN_TEMPLATES, **settings):
    return messages_for_tests(problem(question), program, suite_size, templates, **settings)


def function_messages(description, program, earlier, templates=BUILT_IN_TEMPLATES):
    return function.test_function_messages(problem(description, program), earlier, templates)


def told(messages):
    assert [message["role"] for message in messages] == ["system", "user"]
    return messages[1]["content"]


def test_the_code_llm_is_asked_for_the_whole_function_in_one_block_and_nothing_else():
    text = told(function.code_messages(problem(QUESTION), BUILT_IN_TEMPLATES))
    for part in ("Complete the function `f`", "whole function", "one ```python block", "nothing outside", QUESTION):
        assert part in text


def test_the_test_llm_is_told_its_role_three_strategies_the_form_and_that_only_the_first_count():
    text = told(suite_messages("Add one.", PROGRAM, 6))
    for part in (
        *("inputs on which a program and the problem's requirements disagree", "6 different tests"),
        *("1. boundary and extreme", "2. inputs that follow the program's own branches", "3. larger, structured"),
        *("Only the first 6 count", "strongest first", "Add one.", SUSPECT, f"```python\n{PROGRAM}\n```"),
        *("One ```python block", "one test a line", "assert f(arguments) == expected_value"),
    ):
        assert part in text


def test_without_a_program_there_is_none_to_follow_and_without_answers_only_calls_are_wanted():
    black_box = told(suite_messages("Add one.", None, 8))
    assert BRANCHES not in black_box
    assert "Program" not in black_box
    assert "2. larger, structured" in black_box
    calls = told(suite_messages("Add one.", PROGRAM, 8, answers=False))
    assert calls.endswith("\nf(arguments)")
    assert "assert" not in calls
    assert "one call a line" in calls


@pytest.mark.parametrize("program", [PROGRAM, None])
def test_the_short_prompt_suspects_nobody(program):
    text = told(suite_messages("Add one.", program, 8, short=True))
    assert "8 different tests" in text
    assert "assert f(arguments) == expected_value" in text
    for word in ("wrong", "bug", "fail", "disagree", "1. "):
        assert word not in text


@pytest.mark.parametrize(("preset", "short"), [("1.5b/a1", False), ("1.5b/sft", True), ("1.5b/a1_from_sft", True)])
def test_sft_and_what_starts_from_it_are_asked_shortly(preset, short):
    assert load(Config, preset, ()).method.asks_shortly == short


# --- a user's templates -----------------------------------------------------------------------------------

TEMPLATES = r"""
code: {system: "Be {{brief}}.", user: "Write {entry_point}: {question}"}
test: {user: "{suite_size} asserts on {entry_point}.\n{question}\n{program}"}
black_box: {user: "{suite_size} of {question}"}
sft: {user: "{question}, {program}"}
script: {user: "Solve {question}"}
function: {system: "Test.", user: "{program} {description}"}
another: {user: "One more of {entry_point}."}
"""


def test_a_users_templates_take_the_place_of_every_prompt_and_are_recorded_with_the_run(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(TEMPLATES)
    config = load(Config, "1.5b/a1", [f"prompts.templates={file}"])
    file.unlink()
    again = Config.model_validate(config.model_dump(mode="json"))
    assert again == config and load(Config, "1.5b/a1", []) != config
    mine = again.prompts.templates
    assert function.code_messages(problem("q {x}"), mine) == [
        {"role": "system", "content": "Be {brief}."},
        {"role": "user", "content": "Write f: q {x}"},
    ]
    said = [
        suite_messages("q", "p\n", 8, mine),
        suite_messages("q", None, 8, mine),
        suite_messages("q", "p", 8, mine, short=True),
        function.code_messages(problem(" q ", source="bigcodebench"), mine),
    ]
    assert said == [
        [{"role": "user", "content": text}] for text in ("8 asserts on f.\nq\np", "8 of q", "q, p", "Solve q")
    ]
    assert [message["content"] for message in function_messages("d", "p", ["a", "b"], mine)] == [
        *("Test.", "p d", "a", "One more of f.", "b", "One more of f.")
    ]


def test_what_templates_leave_out_is_asked_by_ours():
    mine = Templates(code=Template(user="{question}"))
    assert suite_messages("q", "p", 8, mine) == suite_messages("q", "p", 8)
    assert function_messages("d", "p", ["a"], mine) == function_messages("d", "p", ["a"])
    assert told(function_messages("d", "p", [])).startswith("Write a test function for `f`.")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "code: {user: 'Write {question.id}'}",
            "code: there is no field {question.id}; there are question, entry_point",
        ),
        ("code: {user: '{question!r}'}", "code: there is no field {question!}; there are"),
        ("code: {user: '{}{question}'}", "code: there is no field {}; there are"),
        ("code: {user: 'Write {entry_point}.'}", "code: it must show {question}"),
        ("test: {user: '{question} {'}", "test: Single '{' encountered in format string; write {{ for a brace"),
        ("tests: {user: '{question}'}", "unknown key prompts.templates.tests; did you mean prompts.templates.test?"),
        ("another: {system: no, user: more}", "another.system: False is a boolean"),
        ("another: {system: n, user: more}", "another: a conversation has its system's part at the beginning"),
        ("- code", "templates are a mapping of code, test"),
        ("code: [", "while parsing"),
    ],
)
def test_templates_are_checked_before_anything_begins(text, line, tmp_path):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        load(Config, "1.5b/a1", [f"prompts.templates={tmp_path}/mine.yaml"])
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_of_templates_that_is_not_there_is_named():
    with pytest.raises(UserError, match=r"^prompts.templates: none.yaml: No such file or directory$"):
        load(Config, "1.5b/a1", ["prompts.templates=none.yaml"])


def test_plain_texts_take_neither_templates_nor_a_datasets_prompts():
    assert PromptsConfig.model_validate("plain") == PromptsConfig(style="plain")
    with pytest.raises(UserError, match="prompts=plain: plain texts are neither"):
        load(Config, "micro/a1", ["prompts.source=dataset"])
