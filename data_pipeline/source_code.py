"""Reads facts about a row's Python code from its syntax."""

import ast
import builtins
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence, Set

from data_pipeline.problem import BadRow
from sandbox.syntax import parse_module


def parse(code: str, what: str) -> ast.Module:
    """The syntax tree; `what` names the code in the reason. Raises BadRow if the code does not parse."""
    try:
        return parse_module(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadRow(f"{what} does not parse: {' '.join(str(error).split())}") from None


def functions(code: str, what: str = "the solution") -> dict[str, ast.FunctionDef]:
    """The top-level functions by name, in order. Raises BadRow if the code does not parse."""
    return {node.name: node for node in parse(code, what).body if isinstance(node, ast.FunctionDef)}


def classes(code: str) -> dict[str, ast.ClassDef]:
    """The top-level classes by name, in order. Raises BadRow if the code does not parse."""
    return {node.name: node for node in parse(code, "the solution").body if isinstance(node, ast.ClassDef)}


def helpers_last(defined: Mapping[str, ast.AST]) -> list[str]:
    """The names of definitions, first those that no other definition uses."""
    used = {name: {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} for name, node in defined.items()}
    return sorted(defined, key=lambda name: any(name in used[other] for other in defined if other != name))


def function_under_test(tests: Sequence[ast.stmt]) -> str | None:
    """The one function, or class, that every assert calls, or that statements do if no assert calls any; None if it is
    not one. What is called for an argument, Python's own and what the tests define or import do not count.
    """
    nodes = [node for statement in tests for node in ast.walk(statement)]
    own = {name for node in nodes for name in _bound(node)} | vars(builtins).keys()
    for parts in ([node for node in nodes if isinstance(node, ast.Assert)], tests):
        called = [names for part in parts if (names := set(_called(part, own)))]
        if called:
            common = set.intersection(*called)
            return common.pop() if len(common) == 1 else None
    return None


def _bound(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
            return (name,)
        case ast.Name(id=name, ctx=ast.Store()):
            return (name,)
        case ast.Import(names=names) | ast.ImportFrom(names=names) if getattr(node, "module", "") != "solution":
            return tuple(each.asname or each.name for each in names)
    return ()


def _called(node: ast.AST, own: Set[str]) -> Iterator[str]:
    waiting = [node]
    while waiting:
        match waiting.pop():
            case ast.Call(func=ast.Name(id=name)) if name not in own:
                yield name
            case other:
                waiting += ast.iter_child_nodes(other)


def entry_function(solution: str, entry_point: str) -> ast.FunctionDef:
    """The function of that name. Raises BadRow if the solution does not define it."""
    found = functions(solution).get(entry_point)
    if found is None:
        raise BadRow(f"the solution defines no function {entry_point}")
    return found


def with_declaration(question: str, defined: ast.FunctionDef | ast.ClassDef) -> str:
    """The question, with the declaration of the function, or of the class and its methods, unless it has one."""
    keyword = "class" if isinstance(defined, ast.ClassDef) else "def"
    if re.search(rf"\b{keyword} +{defined.name}\b", unicodedata.normalize("NFKC", question)):
        return question
    if isinstance(defined, ast.FunctionDef):
        return f"{question.rstrip()}\n\n{_declaration(defined)}"
    methods = [each for each in defined.body if isinstance(each, ast.FunctionDef)]
    shown = [each for each in methods if each.name == "__init__" or not each.name.startswith("_")]
    lines = [f"class {defined.name}:", *(f"    {_declaration(method)}" for method in shown)]
    return f"{question.rstrip()}\n\n" + "\n".join(lines)


def _declaration(function: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"def {function.name}({ast.unparse(function.args)}){returns}:"
