"""Reads facts about a row's Python code from its syntax."""

import ast
import builtins
import unicodedata
import warnings
from collections.abc import Iterable

from data_pipeline.problem import BadRow
from sandbox.syntax import parse_module


def parse(code: str, what: str) -> ast.Module:
    """The syntax tree; `what` names the code in the reason. Raises BadRow if the code does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in other people's code need no fix
            return parse_module(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadRow(f"{what} does not parse: {' '.join(str(error).split())}") from None


def functions(code: str, what: str = "the solution") -> dict[str, ast.FunctionDef]:
    """The top-level functions by name, in order. Raises BadRow if the code does not parse."""
    return {node.name: node for node in parse(code, what).body if isinstance(node, ast.FunctionDef)}


def classes(code: str) -> dict[str, ast.ClassDef]:
    """The top-level classes by name, in order. Raises BadRow if the code does not parse."""
    return {node.name: node for node in parse(code, "the solution").body if isinstance(node, ast.ClassDef)}


def first_called(statements: Iterable[ast.stmt]) -> str | None:
    """The first function that statements call by its name, builtins left out."""
    calls = (node for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Call))
    names = (call.func.id for call in calls if isinstance(call.func, ast.Name))
    return next((name for name in names if not hasattr(builtins, name)), None)


def entry_function(solution: str, entry_point: str) -> ast.FunctionDef:
    """The function of that name. Raises BadRow if the solution does not define it."""
    found = functions(solution).get(entry_point)
    if found is None:
        raise BadRow(f"the solution defines no function {entry_point}")
    return found


def with_declaration(question: str, defined: ast.FunctionDef | ast.ClassDef) -> str:
    """The question, with the declaration of the function, or of the class and its methods, below it unless it already
    has one.
    """
    keyword = "class" if isinstance(defined, ast.ClassDef) else "def"
    if f"{keyword} {defined.name}" in unicodedata.normalize("NFKC", question):
        return question
    if isinstance(defined, ast.FunctionDef):
        return f"{question.rstrip()}\n\n{_declaration(defined)}"
    methods = [each for each in defined.body if isinstance(each, ast.FunctionDef) and _is_shown(each.name)]
    lines = [f"class {defined.name}:", *(f"    {_declaration(method)}" for method in methods)]
    return f"{question.rstrip()}\n\n" + "\n".join(lines)


def _declaration(function: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"def {function.name}({ast.unparse(function.args)}){returns}:"


def _is_shown(method: str) -> bool:
    return method == "__init__" or not method.startswith("_")
