"""Reads KodCode-V1 in two formats: parquet, JSON or JSONL.

- KodCode/KodCode-V1 on the Hub: question, solution, test (or test_code), test_info, gpt_difficulty;
- the training set of Code-A1's authors, hard questions all: prompt (a conversation), GT_code, GT_test (asserts, or the
  bodies of test functions), clean_description (also in extra_info), extra_info with question_id and function_name.
"""

import ast
import textwrap
from collections.abc import Sequence

from data_pipeline import node_tests
from data_pipeline.golden import asserts_of, golden_tests, golden_tests_of_class, tests_among
from data_pipeline.problem import BadRow, Problem, Row
from data_pipeline.row_format import Format
from data_pipeline.rows import conversation, identifier, mapping, mappings, text, texts
from data_pipeline.source_code import classes, functions, helpers_last, parse, with_declaration
from sandbox import Task, nodes


def _problem(row: Row, name: str) -> Problem:
    question, solution, tests = text(row, "question"), text(row, "solution"), text(row, "test", "test_code")
    named, made = _candidates(row, helpers_last(functions(solution))), helpers_last(classes(solution))
    task, entry_point, solution, golden = _golden(tests, solution, named, made)
    defined = classes(solution) if task is Task.CLASS else functions(solution)
    return Problem(
        id=name,
        question=with_declaration(question, defined[entry_point]),
        solution=solution,
        entry_point=entry_point,
        golden_tests=golden,
        source="kodcode",
        task=task,
    )


def _candidates(row: Row, defined: Sequence[str]) -> list[str]:
    infos = mappings(row.get("test_info"), "test_info")
    named = [identifier(info, "function_name") for info in infos if isinstance(info.get("function_name"), str)]
    return list(dict.fromkeys([*(name for name in named if name in defined), *defined]))


def _golden(
    tests: str, solution: str, functions: Sequence[str], classes: Sequence[str]
) -> tuple[Task, str, str, tuple[str, ...]]:
    """Task, entry point, solution (maybe annotated) and golden tests of the function, else class, with most tests."""
    if not (functions or classes):
        raise BadRow("the solution defines neither a function nor a class")
    found = [(Task.FUNCTION, name, *_of_function(tests, solution, name)) for name in functions]
    found += [(Task.CLASS, name, solution, golden_tests_of_class(tests, name)) for name in classes]
    best = max(found, key=lambda each: len(each[3]))
    if not best[3]:
        raise BadRow("no test of the form assert call == value")
    return best


def _of_function(tests: str, solution: str, name: str) -> tuple[str, tuple[str, ...]]:
    if not nodes.are_mentioned(tests):
        return solution, golden_tests(tests, name)
    module = parse(tests, "the test code")
    helpers = [
        each for each in (*module.body, *parse(solution, "the solution").body) if isinstance(each, ast.FunctionDef)
    ]
    solution, asserts = node_tests.read(asserts_of(module), name, solution, helpers)
    return solution, tests_among(asserts, name)


def _authors_problem(row: Row, name: str) -> Problem:
    solution, extra = text(row, "GT_code"), mapping(row.get("extra_info"), "extra_info")
    defined = helpers_last(functions(solution))
    named = identifier(extra, "function_name") if extra.get("function_name") else ""
    tests = "".join(f"def test():\n{textwrap.indent(body, '    ')}\n" for body in texts(row, "GT_test"))
    _, entry_point, solution, golden = _golden(tests, solution, [named] if named in defined else defined, ())
    function = functions(solution)[entry_point]
    description = row.get("clean_description") or extra.get("clean_description")
    return Problem(
        id=name,
        question=with_declaration(_asked(row), function),
        solution=solution,
        entry_point=entry_point,
        golden_tests=golden,
        source="kodcode",
        description=with_declaration(description, function) if isinstance(description, str) else "",
        prompt=conversation(row, "prompt"),
    )


def _asked(row: Row) -> str:
    """The question itself: a field `problem`, else what follows "Question:" in the user's last message."""
    if row.get("problem"):
        return text(row, "problem")
    messages = mappings(row.get("prompt"), "prompt")
    asked = next((message for message in reversed(messages) if message.get("role") == "user"), {})
    return text(asked, "content").partition("Question:\n")[2] or text(asked, "content")


AUTHORS_FORMAT = Format(
    "KodCode as the authors of Code-A1 train on it",
    frozenset({"prompt", "GT_code", "GT_test", "extra_info"}),
    lambda row: text(mapping(row.get("extra_info"), "extra_info"), "question_id"),
    _authors_problem,
    difficulty_of=lambda _row: "hard",
)
FORMAT = Format(
    "KodCode",
    frozenset({"question_id", "question", "solution", "test_info"}),
    lambda row: text(row, "question_id"),
    _problem,
    difficulty_of=lambda row: row.get("gpt_difficulty"),
)
