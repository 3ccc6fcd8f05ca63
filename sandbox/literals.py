"""The values that literals stand for, found without running anything."""

import ast

from sandbox.inside.encoding import encode
from sandbox.syntax import parse_expression

MAX_LITERAL = 20_000  # characters of source that are read


def encode_literal(expression: str) -> str | None:
    """The canonical text of a Python literal, found without running anything; None where it is not plain
    literal.
    """
    if len(expression) > MAX_LITERAL:
        return None

    try:
        return encode(ast.literal_eval(parse_expression(expression.strip())))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, OverflowError):
        return None
