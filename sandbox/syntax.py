"""Python's parser, one thread at a time.

CPython before 3.11.9 and 3.12.3 counts the depth of the tree that it builds in one place for all threads, and so raises
SystemError now and then when two threads parse at once (github.com/python/cpython/issues/106905). The pool's threads
parse calls while their users parse suites, so everyone parses here.
"""

import ast
import threading

one_at_a_time = threading.Lock()  # to be held around other people's code that parses, too


def parse_module(source: str) -> ast.Module:
    """The tree of a program. Raises what `ast.parse` does."""
    with one_at_a_time:
        return ast.parse(source)


def parse_expression(source: str) -> ast.expr:
    """The tree of one expression. Raises what `ast.parse` does."""
    with one_at_a_time:
        return ast.parse(source, mode="eval").body
