"""UnLeakedTestBench with test functions, as its own scripts have it: any functions and classes that pytest collects.

A response is one test: its first Python block, else its first fenced block, else all of it. It is correct if pytest
collects something in it, and all of that passes. Each is a file of its own: the prompt wants one name of all.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from codea1_jax.evals.pytest_jobs import WrittenTests
from codea1_jax.game.code_blocks import answer_in, code_blocks
from codea1_jax.game.suites import parse_statements


def read_tests(responses: Sequence[str], entry_point: str) -> WrittenTests:
    """A file for each response that is a test."""
    texts = tuple(read_test(response) or "" for response in responses)
    files = {f"test_{number}.py": text for number, text in enumerate(texts) if text}
    return WrittenTests(texts, files, tuple(files), every_test_counts=False)


def read_test(response: str) -> str | None:
    """The code of a response, if pytest would collect a test in it."""
    answer = answer_in(response)
    blocks = code_blocks(answer)
    code = ([b.text for b in blocks if b.is_python] or [b.text for b in blocks] or [answer])[0]
    return code if any(_is_test(statement) for statement in parse_statements(code)) else None


def _is_test(statement: ast.stmt) -> bool:
    match statement:
        case ast.FunctionDef(name=name):
            return name.startswith("test")
        case ast.ClassDef(name=name, bases=bases):
            return name.startswith("Test") or any("TestCase" in ast.unparse(base) for base in bases)
        case _:
            return False
