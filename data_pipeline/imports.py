"""A question's own imports, which its answers may use without repeating them.

The prompt of a benchmark often shows `from typing import List` above the function, and a completion leaves it out. So
the imports of prompt and reference are put before a program when it runs. (The original does so with the reference's in
training, and nowhere with the prompt's.) An answer completes its prompt, so it also gets the prompt's imports from
`__future__`; it does not get the reference's.
"""

import ast
import re
import sys
from functools import lru_cache

from data_pipeline.problem import Problem
from sandbox import Task
from sandbox.syntax import is_future, parsed, stored_names, with_lines, with_values

_IMPORT_LINE = re.compile(r"^(?:import|from)[ \t]+\w.*$", re.MULTILINE)
_DEFINITIONS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SHORT = 100  # characters of a constant that stands in another one's place
_MAX_KEPT = 4_096  # questions whose imports are remembered: a step's


def runnable(program: str, problem: Problem, *, helpers: bool = False) -> str:
    """What the judge runs of a program that answers the problem, wherever it is judged.

    Of a function or class: the preamble, the imports of the problem's prompt and solution, the program, and what calls
    it. A program that does not parse gets no imports. helpers: also what the solution defines next to the function
    that is asked for.
    """
    if problem.task is Task.STREAM:
        return problem.preamble + program
    imports = _imports(problem.question, problem.solution)
    if helpers:
        imports += _helpers(problem.solution, problem.entry_point)
    # Python wants imports from `__future__` first.
    if any(line.endswith(" import *") for line in imports):
        imports += ("from builtins import *",)  # which a program means that imports nothing itself
    imported = with_lines(program, sorted(imports, key=lambda line: not line.startswith("from __future__ ")))
    return problem.preamble + problem.driven(imported)


def constants_of(problem: Problem) -> dict[str, ast.expr]:
    """What the solution's own statements `NAME = EXPR` bind, the last of each name; short ones are written out."""
    found: dict[str, ast.expr] = {}
    for statement in parsed(problem.solution) or ():
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                short = {name: each for name, each in found.items() if len(ast.unparse(each)) < _SHORT}
                found[name] = with_values(value, short)
    return found


def packages_of(program: str) -> frozenset[str]:
    """The top-level modules outside of the standard library that a program imports, wherever in it."""
    nodes = [node for statement in parsed(program) or () for node in ast.walk(statement)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return frozenset(name.partition(".")[0] for name in names) - sys.stdlib_module_names - {""}


@lru_cache(maxsize=_MAX_KEPT)
def _imports(question: str, solution: str) -> tuple[str, ...]:
    """The import statements of both, each once, in order. In a prompt in prose, the lines that are imports count."""
    found = dict.fromkeys(ast.unparse(statement) for statement in _import_statements(question))
    found |= dict.fromkeys(ast.unparse(each) for each in _import_statements(solution) if not is_future(each))
    return tuple(found)


@lru_cache(maxsize=_MAX_KEPT)
def _helpers(solution: str, entry_point: str) -> tuple[str, ...]:
    """The classes and assignments of a solution that need none of its functions, nor others that do."""
    hidden = {entry_point}
    found = []
    for statement in parsed(solution) or ():
        names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        defined = {getattr(statement, "name", "")} | stored_names(statement)
        if isinstance(statement, _FUNCTIONS) or hidden & (names | defined):
            hidden |= defined - {""}
        elif isinstance(statement, _DEFINITIONS):
            found.append(ast.unparse(statement))
    return tuple(found)


def _import_statements(source: str) -> list[ast.stmt]:
    # Lines of prose that begin like an import, such as "from the left to the right", do not parse.
    lines = _IMPORT_LINE.findall(source)
    statements = parsed(source) or [each for line in lines for each in parsed(line) or ()]
    return [statement for statement in statements if isinstance(statement, ast.Import | ast.ImportFrom)]
