"""From a model's response to a program or a suite of tests. Pure; nothing is executed."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from sandbox.language import Rejected, SuiteTest, parse_test
from sandbox.syntax import parse_module

# Possessive: an opening line that no line break ends must not be tried again from each of its characters.
_FENCE = re.compile(r"^[ \t]*+```[ \t]*+(\w*+)[^\n]*+\n(.*?)(?:^[ \t]*+```|\Z)", re.MULTILINE | re.DOTALL)

MAX_CUTS = 100  # a cut-off statement needs few; a hostile response could ask for one per line
MAX_REJECTED = 1_000  # characters kept of a rejected assert: a bound name may stand for much, many times


@dataclass(frozen=True)
class RejectedTest:
    """An assert outside the suite language, and why."""

    text: str
    reason: str


@dataclass(frozen=True)
class Suite:
    """The tests found in a response, in order, and the asserts that are none."""

    tests: tuple[SuiteTest, ...]
    rejected: tuple[RejectedTest, ...]


def extract_program(response: str) -> str:
    """The first fenced `python` block, else the first fenced block, else the whole response."""
    blocks = _FENCE.findall(response)
    python = [body for language, body in blocks if language == "python"]
    return (python or [body for _, body in blocks] or [response])[0]


def extract_suite(response: str, entry_point: str, *, answers: bool = True) -> Suite:
    """Every `assert CALL == EXPR` of all fenced `python` blocks joined, else of the response's own assert lines.

    A response cut off mid-statement keeps the statements before the cut. Without `answers`, every line `CALL` is a
    test as well, and what a test states is None, whatever the response says.
    """
    python = [body for language, body in _FENCE.findall(response) if language == "python"]
    openings = ("assert ",) if answers else ("assert ", f"{entry_point}(")
    if python:
        statements = _parse_prefix("\n".join(python))
    else:
        lines = [line.strip() for line in response.split("\n")]
        statements = [s for line in lines if line.startswith(openings) for s in _parse_prefix(line)]
    if not answers:
        statements = [_without_answer(statement) for statement in statements]
    found = list(_asserts(statements, entry_point, {}))
    return Suite(
        tuple(test for test in found if isinstance(test, SuiteTest)),
        tuple(test for test in found if isinstance(test, RejectedTest)),
    )


def _without_answer(statement: ast.stmt) -> ast.stmt:
    """A call, or an assert on one, as an assert that states None."""
    match statement:
        case ast.Expr(value=call) | ast.Assert(test=ast.Compare(left=call, ops=[_])):
            return ast.Assert(ast.Compare(call, [ast.Eq()], [ast.Constant(None)]))
        case _:
            return statement


def _parse_prefix(source: str) -> list[ast.stmt]:
    """The statements of the longest run of leading lines that parses; none if that takes over `MAX_CUTS` cuts."""
    lines = source.split("\n")  # not splitlines: a form feed or U+2028 in a string ends no line of Python
    for _ in range(MAX_CUTS):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)  # invalid escapes in model text
                return parse_module("\n".join(lines)).body
        except SyntaxError as error:
            # Nothing after the line of the error can make what stands before it parse.
            cut = min(error.lineno or len(lines), len(lines))
            lines = lines[: max(cut - 1, 0)] if cut < len(lines) else lines[:-1]
        except (ValueError, RecursionError, MemoryError):  # null bytes; nesting beyond the parser's depth
            lines = lines[:-1]
    return []


def _asserts(
    statements: list[ast.stmt], entry_point: str, outer: dict[str, ast.expr]
) -> Iterator[SuiteTest | RejectedTest]:
    """The asserts of a block and, in place, of the blocks in it: functions, classes, branches, loops."""
    bound = dict(outer)
    for statement in statements:
        match statement:
            case ast.Assert():
                test = parse_test(statement, entry_point, bound)
                if isinstance(test, Rejected):
                    test = RejectedTest(_spelled(statement), test.reason)
                yield test
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                bound[name] = value
            case _:
                rebound = _rebound(statement)
                inner = {name: value for name, value in bound.items() if name not in rebound}
                for block in _blocks(statement):
                    yield from _asserts(block, entry_point, inner)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks that a compound statement holds (a `try`'s handlers last); none of a simple one."""
    for holder in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield from (getattr(holder, part) for part in ("body", "orelse", "finalbody") if hasattr(holder, part))


def _rebound(statement: ast.stmt) -> frozenset[str]:
    """Names that mean something else inside: parameters, loop variables, `with ... as` names."""
    match statement:
        case ast.FunctionDef(args=own) | ast.AsyncFunctionDef(args=own):
            return frozenset(node.arg for node in ast.walk(own) if isinstance(node, ast.arg))
        case ast.For(target=target) | ast.AsyncFor(target=target):
            stored = [target]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            stored = [item.optional_vars for item in items if item.optional_vars is not None]
        case _:
            return frozenset()
    return frozenset(node.id for tree in stored for node in ast.walk(tree) if isinstance(node, ast.Name))


def _spelled(statement: ast.stmt) -> str:
    """The statement's text, for the record. Not every tree that was parsed can be written out again."""
    try:
        return ast.unparse(statement)[:MAX_REJECTED]
    except (ValueError, RecursionError, MemoryError) as error:
        return f"({type(error).__name__}: {error})"
