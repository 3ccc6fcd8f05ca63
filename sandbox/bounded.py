"""Rewrites an expression of the suite language so that it is computed within `sandbox.inside.expressions`'s bounds."""

import ast
from functools import lru_cache
from typing import Any

from sandbox.syntax import parse_expression

HELPERS = frozenset(("_run_", "_each_", "_made_", "_times_", "_power_", "_shift_"))

_OPERATORS: dict[type, str] = {ast.Mult: "_times_", ast.Pow: "_power_", ast.LShift: "_shift_"}


@lru_cache(maxsize=4_096)
def bounded(expression: str) -> str:
    """The expression, which must be in the language, with `HELPERS` around all that may take long or grow.

    Raises what `ast.parse` does where that is nested too deeply.
    """
    text = ast.unparse(_Bounded().visit(parse_expression(expression)))
    parse_expression(text)
    return text


class _Bounded(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        return ast.Call(_name("_run_"), [node.func, *node.args], node.keywords)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.BitOr | ast.BitXor):  # which a dict's views take any iterable for
            return _call("_made_", node)
        helper = _OPERATORS.get(type(node.op))
        return _call(helper, node.left, node.right) if helper else node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        self.generic_visit(node)
        return ast.ListComp(node.elt, node.generators)

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        self.generic_visit(node)
        node.iter = _call("_each_", node.iter)
        return node

    def _visit_hash_table(self, node: ast.expr) -> Any:
        self.generic_visit(node)
        return _call("_made_", node)

    visit_Set = visit_SetComp = visit_Dict = visit_DictComp = _visit_hash_table


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _call(helper: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_name(helper), list(arguments), [])
