"""Linked lists and binary trees, of LeetCode's classes, which a reference takes and returns.

What its annotations call `ListNode` or `TreeNode` is a list of values in tests (see `sandbox.inside.nodes`); those of
the judged program are not looked at. It may use both classes, and the names of `typing`, without defining them.
"""

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import lru_cache

from sandbox.inside.nodes import CHILDREN, Kind, ListNode, Signature, TreeNode
from sandbox.syntax import parse_expression, parse_module

GIVEN = "from typing import *; from sandbox.inside.nodes import ListNode, TreeNode"
"""The line that programs have above them, as LeetCode's have."""

DEFINITIONS = {each.__name__: inspect.getsource(each).rstrip() for each in (ListNode, TreeNode)}

_FUNCTION = """

from sandbox.inside import nodes as _nodes
_nodes.drive(globals(), {name!r}, {signature!r})
"""


@lru_cache(maxsize=4_096)
def signatures(solution: str, name: str) -> Mapping[str, Signature]:
    """Those that have nodes in them: of the function of that name, or of the methods of the class, by their names."""
    if not are_mentioned(solution):
        return {}
    try:
        found = {each.name: _signature(each) for each in _functions(parse_module(solution), name)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return {each: signature for each, signature in found.items() if classes_in(signature)}


def are_mentioned(code: str) -> bool:
    return any(name in code for name in CHILDREN)


def classes_in(signature: Signature) -> set[str]:
    parameters, result = signature
    return {name for kind in (*parameters.values(), result) if (name := _class_in(kind)) is not None}


def _class_in(kind: Kind) -> str | None:
    return _class_in(kind[0]) if isinstance(kind, list) else kind


def driver(name: str, signature: Signature) -> str:
    return _FUNCTION.format(name=name, signature=signature)


def _functions(module: ast.Module, name: str) -> Iterator[ast.FunctionDef]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            yield node
        if isinstance(node, ast.ClassDef) and node.name == name:
            yield from (each for each in node.body if isinstance(each, ast.FunctionDef))


def _signature(function: ast.FunctionDef) -> Signature:
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return {each.arg: kind_of(each.annotation) for each in parameters if each.arg != "self"}, kind_of(function.returns)


def kind_of(annotation: ast.expr | None) -> Kind:
    """What an annotation stands for: `ListNode`, `Optional[ListNode]`, `"ListNode | None"`, `list[ListNode]` ..."""
    match annotation:
        case ast.Name(id=name) if name in CHILDREN:
            return name
        case ast.Constant(value=str() as text):
            return kind_of(parse_expression(text))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return kind_of(left) or kind_of(right)
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            kinds = [kind_of(each) for each in (inner.elts if isinstance(inner, ast.Tuple) else [inner])]
            kind = next(filter(None, kinds), None)
            return kind if name in ("Optional", "Union") else [kind] if kind and name in ("List", "list") else None
    return None
