"""Python's parser, one thread at a time.

CPython before 3.11.9 and 3.12.3 counts the depth of the tree that it builds in one place for all threads, and so raises
SystemError now and then when two threads parse at once (github.com/python/cpython/issues/106905). The pool's threads
parse calls while their users parse suites, so everyone parses here. Other threads may parse all the same, such as
`traceback` where it formats an error for a log: a parse that met one of them is tried again.
"""

import ast
import threading
import warnings
from typing import Any, TypeGuard

one_at_a_time = threading.Lock()  # also to be held around other people's code that parses

_ATTEMPTS = 5


def parse_module(source: str) -> ast.Module:
    """The tree of a program. Raises what `ast.parse` does."""
    return _parsed(source, "exec")


def parse_expression(source: str) -> ast.expr:
    """The tree of one expression. Raises what `ast.parse` does."""
    return _parsed(source, "eval").body


def is_call_of(node: ast.AST, name: str) -> TypeGuard[ast.Call]:
    """Whether a node calls what has this name."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _parsed(source: str, mode: str) -> Any:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with one_at_a_time, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "invalid decimal literal" is for who wrote `1or 2`, a model
                return ast.parse(source, mode=mode)
        except SystemError:
            if attempt == _ATTEMPTS:
                raise
