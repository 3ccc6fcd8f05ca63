"""Python's parser, one thread at a time.

CPython before 3.11.9 and 3.12.3 counts the depth of the tree that it builds in one place for all threads, and so raises
SystemError now and then when two threads parse at once (github.com/python/cpython/issues/106905). The pool's threads
parse calls while their users parse suites, so everyone parses here. Other threads may parse all the same, such as
`traceback` where it formats an error for a log: a parse that met one of them is tried again.
"""

import ast
import re
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, TypeGuard, TypeVar

one_at_a_time = threading.Lock()  # also to be held around other people's code that parses

_ATTEMPTS = 5

Tree = TypeVar("Tree", bound=ast.AST)


def parse_module(source: str) -> ast.Module:
    return _parsed(source, "exec")


def parsed(source: str) -> list[ast.stmt] | None:
    """The statements of a source; None where it does not parse: null bytes, or nesting beyond the parser's depth."""
    try:
        return parse_module(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def parse_expression(source: str) -> ast.expr:
    return _parsed(source, "eval").body


def is_call_of(node: ast.AST, name: str) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def replaced(tree: Tree, new: Callable[[ast.AST], ast.AST | None]) -> Tree:
    """The tree, changed, with what `new` gives for a node in its place, unless that is None."""

    class Replacement(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return new(node) or self.generic_visit(node)

    return Replacement().visit(tree)


def with_values(tree: Tree, values: Mapping[str, ast.expr]) -> Tree:
    """The tree, changed, with expressions in place of the names that it only reads."""
    if not values:
        return tree
    read = values.keys() - stored_names(tree)
    return replaced(tree, lambda node: values[node.id] if isinstance(node, ast.Name) and node.id in read else None)


def stored_names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}


def size_of(tree: ast.AST) -> int:
    return sum(1 for _ in ast.walk(tree))


def with_lines(program: str, lines: Sequence[str]) -> str:
    """`program` after `lines`, behind its own imports from `__future__`; unchanged if it does not parse."""
    statements = parsed(program) if lines else None
    if statements is None:
        return program
    has_docstring = ast.get_docstring(ast.Module(statements, []), clean=False) is not None
    own = list(takewhile(is_future, statements[has_docstring:]))
    return _after(own[-1], lines, program) if own else "\n".join([*lines, program])


def _after(statement: ast.stmt, lines: Sequence[str], program: str) -> str:
    """The program with `lines` behind one of its statements, which may share a line with the next."""
    code = program.replace("\r\n", "\n").replace("\r", "\n").encode()
    line_starts = [0, *(match.end() for match in re.finditer(b"\n", code))]
    end = line_starts[(statement.end_lineno or 0) - 1] + (statement.end_col_offset or 0)
    rest = re.sub(rb"\A[ \t]*;?[ \t]*(\\\n[ \t]*)?", b"", code[end:])
    return "\n".join([code[:end].decode(), *lines, rest.decode()])


def _parsed(source: str, mode: str) -> Any:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with one_at_a_time, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "invalid decimal literal" is for who wrote `1or 2`, a model
                return ast.parse(source, mode=mode)
        except SystemError:
            if attempt == _ATTEMPTS:
                raise
