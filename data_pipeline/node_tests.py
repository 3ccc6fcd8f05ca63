"""Reads pytest code about linked lists and binary trees: golden tests write these as lists (see `sandbox.nodes`).

Understood are constructors, `TreeNode(1, None, TreeNode(2))`, functions of one parameter that make such nodes of a
list, and, where their result must equal a list, those that read a linked list. Other asserts on nodes are not tests.
The solution would fail a test that was misread.
"""

import ast
from collections import deque
from collections.abc import Iterable

from data_pipeline.source_code import parse
from sandbox import nodes
from sandbox.syntax import is_call_of

_NONE = ast.Constant(None)


def read(
    asserts: Iterable[ast.Assert], name: str, solution: str, helpers: Iterable[ast.FunctionDef]
) -> tuple[str, list[ast.Assert]]:
    """The solution, its function annotated with the classes that tests show where it is not, and the tests with lists.

    asserts: without names of the tests' own; they are changed. helpers: functions that they may call.
    Raises BadRow if the solution does not parse.
    """
    module = parse(solution, "the solution")
    before = ast.unparse(module)
    function = next(each for each in module.body if isinstance(each, ast.FunctionDef) and each.name == name)
    reading = _Reading(function, [each for each in helpers if each.name != name])
    for _ in range(2):  # what None stands for in one test, another shows
        asserts = [reading.visit(each) for each in asserts]
    after = ast.unparse(module)
    return (solution if after == before else after), list(asserts)


class _Reading(ast.NodeTransformer):
    """Replaces what makes nodes, and what reads them, and annotates the function with their classes."""

    def __init__(self, function: ast.FunctionDef, helpers: Iterable[ast.FunctionDef]) -> None:
        self._function = function
        self._makers: dict[str, str] = {}
        self._readers: set[str] = set()
        for helper in helpers:
            inner = list(ast.walk(helper))
            made = [name for name in nodes.DEFINITIONS if any(is_call_of(each, name) for each in inner)]
            if made and len(helper.args.args) == 1:
                self._makers[helper.name] = made[0]
            elif any(isinstance(each, ast.Attribute) and each.attr == "next" for each in inner):
                self._readers.add(helper.name)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        function = self._function
        match node:
            case ast.Compare(left=ast.Call(func=ast.Name(id=reader), args=[call]), comparators=[ast.List()]) if (
                reader in self._readers and is_call_of(call, function.name)
            ):
                node.left, function.returns = call, function.returns or ast.Name("ListNode")
            case ast.Compare(left=call, ops=[ast.Eq() | ast.Is()], comparators=[stated]) if is_call_of(
                call, function.name
            ):
                function.returns = self._annotation(function.returns, stated)
                if _is_nothing(stated, function.returns):
                    node.ops, node.comparators = [ast.Eq()], [ast.List([])]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if written := self._written(node):
            return written[1]
        if is_call_of(node, self._function.name):
            for i, (parameter, value) in enumerate(zip(self._function.args.args, node.args, strict=False)):
                parameter.annotation = self._annotation(parameter.annotation, value)
                if _is_nothing(value, parameter.annotation):
                    node.args[i] = ast.List([])
        return self.generic_visit(node)

    def _annotation(self, annotation: ast.expr | None, value: ast.expr) -> ast.expr | None:
        written = None if annotation else self._written(value)
        return ast.Name(written[0]) if written else annotation

    def _written(self, value: ast.expr) -> tuple[str, ast.expr] | None:
        match value:
            case ast.Call(func=ast.Name(id=maker), args=[ast.List() as values]) if maker in self._makers:
                return self._makers[maker], values
            case ast.Call(func=ast.Name(id=name)) if name in nodes.DEFINITIONS and (values := _in_order(value, name)):
                return name, ast.List(values)
        return None


def _in_order(root: ast.Call, name: str) -> list[ast.expr]:
    values, left = list[ast.expr](), deque[ast.expr]([root])
    while left:
        each = left.popleft()
        match each:
            case ast.Constant(value=None):
                values.append(each)
            case ast.Call(args=[value, *children], keywords=named) if is_call_of(each, name):
                names = nodes.CHILDREN[name]
                given = dict(zip(names, children, strict=False)) | {each.arg: each.value for each in named}
                values.append(value)
                left += [given.get(child, _NONE) for child in names]
            case _:
                return []
    while values and isinstance(values[-1], ast.Constant) and values[-1].value is None:
        values.pop()
    return values


def _is_nothing(value: ast.expr, annotation: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None and isinstance(nodes.kind_of(annotation), str)
