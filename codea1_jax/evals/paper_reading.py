"""What the authors of Code-A1 read as a test of UnLeakedTestBench in a response.

Their scorer is a fork of the benchmark's (Aoshining/UnLeakedTestBench, 2026-01-24). What it reads is odd in places, and
kept so: the paper's figures were made with it.
"""

import ast
import textwrap
import warnings
from collections.abc import Sequence

from data_pipeline.responses import PAPER_BLOCK

_WRONG = "def {name}():\n    assert 1 == 0"


def read_tests(responses: Sequence[str], entry_point: str) -> tuple[str, ...]:
    """The test of each response, which are the parts of one module."""
    return tuple(read_test(response, entry_point, number) for number, response in enumerate(responses))


def spoken(response: str) -> str:
    return response.split("</think>")[1] if "</think>" in response else response


def read_test(response: str, entry_point: str, number: int) -> str:
    """Module text with one test, whose first function has the response's number in its name.

    A response in which no test can be read gives one that fails.
    """
    name = f"test_{entry_point}_{number}"
    try:
        statements = _first_test(textwrap.dedent(_relevant(spoken(response), entry_point)), entry_point)
        for first in [each for each in statements if isinstance(each, ast.FunctionDef)][:1]:
            first.name = name
        printed = ast.unparse(ast.Module(statements, type_ignores=[]))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a long sum is parsed, but not printed
        printed = ""
    return printed or _WRONG.format(name=name)


def _relevant(response: str, entry_point: str) -> str:
    """From the first line that begins a test function to an assert, if there is such a line; else all Python blocks."""
    lines = response.split("\n")
    stripped = [line.strip() for line in lines]
    start = next((i for i, line in enumerate(stripped) if line.startswith("def test")), None)
    if start is None:
        return "\n".join(PAPER_BLOCK.findall(response))
    # The first assert of the whole response, not of the function: one that stands before it leaves nothing. One of the
    # function under test goes before any other, unless the response ends with it.
    own = next((i + 1 for i, line in enumerate(stripped[:-1]) if line.startswith(f"assert {entry_point}")), None)
    end = own or next((i + 1 for i, line in enumerate(stripped) if line.startswith("assert ")), len(lines))
    return "\n".join(lines[start:end])


def _first_test(source: str, entry_point: str) -> list[ast.stmt]:
    """The statements up to the first function with an assert among its own statements, cut behind that assert; or up to
    the first bare assert, then all in a function. Nothing if there is neither.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in model text
        statements = ast.parse(source).body
    for i, statement in enumerate(statements):
        if isinstance(statement, ast.Assert):
            wrapped = ast.parse(f"def test_{entry_point}(): ...").body
            wrapped[0].body = statements[: i + 1]  # pyright: ignore[reportAttributeAccessIssue]
            return wrapped
        if isinstance(statement, ast.FunctionDef):
            asserts = [n for n, inner in enumerate(statement.body) if isinstance(inner, ast.Assert)]
            if asserts:
                del statement.body[asserts[0] + 1 :]
                return statements[: i + 1]
    return []
