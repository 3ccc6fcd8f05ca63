"""A question's own imports, which its answers may use without repeating them.

The prompt of a benchmark often shows `from typing import List` above the function; a completion then leaves it out. So
the imports of prompt and reference stand in front of a program before it runs, as in the original.
"""

import ast
import re
from functools import lru_cache

from data_pipeline.problem import Problem
from sandbox.syntax import parse_module

_IMPORT_LINE = re.compile(r"^(?:import|from)[ \t]+\w.*$", re.MULTILINE)
_MAX_KEPT = 4_096  # questions whose imports are remembered: a step's


def with_imports(program: str, problem: Problem) -> str:
    """`program` behind the imports of the problem's prompt and solution; left as it is where it does not parse."""
    imports = _imports(problem.question, problem.solution)
    if not imports:
        return program
    try:
        body = parse_module(program).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return program
    future = [i for i, statement in enumerate(body) if _is_future(statement)]
    if not future:
        return "\n".join([*imports, program])
    # They must stay first.
    line = body[future[-1]].end_lineno or 0
    following = body[future[-1] + 1 :]
    lines = program.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if following and following[0].lineno == line:
        return program
    return "\n".join([*lines[:line], *imports, *lines[line:]])


@lru_cache(maxsize=_MAX_KEPT)
def _imports(question: str, solution: str) -> tuple[str, ...]:
    """The import statements of both, each once, in order. Of a prompt in prose, the lines that are imports count."""
    found: dict[str, None] = {}
    for source in (question, solution):
        try:
            statements = parse_module(source).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            statements = [s for line in _IMPORT_LINE.findall(source) for s in _parsed_line(line)]
        for statement in statements:
            if isinstance(statement, ast.Import | ast.ImportFrom) and not _is_future(statement):
                found[ast.unparse(statement)] = None
    return tuple(found)


def _parsed_line(line: str) -> list[ast.stmt]:
    try:
        return parse_module(line).body
    except (SyntaxError, ValueError):  # prose: "from the left to the right"
        return []


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
