"""Mutants of a program: the program with one change, as mutation testing makes them.

A comparison moved over its boundary or reversed, another operator, a number one off, a condition negated, `min` for
`max`. They serve rewards and held-out questions; only UnLeakedTestBench's figures need cosmic-ray's
(`codea1_jax.evals.mutants`).
"""

import ast
import random
from collections.abc import Iterator
from typing import Any

from sandbox.syntax import parse_module

_EACH_OTHER = (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Add, ast.Sub), (ast.And, ast.Or)
_OTHERS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Mult: (ast.Add,),
    **dict.fromkeys((ast.Div, ast.FloorDiv), (ast.Mult,)),
    ast.Mod: (ast.FloorDiv,),
    **{old: (new,) for pair in _EACH_OTHER for old, new in (pair, pair[::-1])},
}
_OTHER_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "sum": "len", "len": "sum"}


def sample_mutants(program: str, count: int, seed: int) -> tuple[str, ...]:
    """At most `count` different mutants of a program, at random; none of one that is nested too deeply."""
    try:
        tree = parse_module(program)
        changes = [(node, *change) for node in ast.walk(tree) for change in _changes(node)]
        chosen = random.Random(f"mutants {seed} {program}").sample(changes, min(count, len(changes)))
        return tuple(dict.fromkeys(_changed(tree, *change) for change in chosen))
    except RecursionError:
        return ()


def _changes(node: ast.AST) -> Iterator[tuple[str, Any]]:
    match node:
        case ast.Compare(ops=[*ops]):
            for i, op in enumerate(ops):
                yield from (("ops", [*ops[:i], other(), *ops[i + 1 :]]) for other in _OTHERS.get(type(op), ()))
        case ast.BinOp(op=op) | ast.AugAssign(op=op) | ast.BoolOp(op=op):
            yield from (("op", other()) for other in _OTHERS.get(type(op), ()))
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            yield from (("value", value + 1), ("value", value - 1))
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield "test", ast.UnaryOp(ast.Not(), test)
        case ast.Name(id=name) if name in _OTHER_NAMES:
            yield "id", _OTHER_NAMES[name]


def _changed(tree: ast.Module, node: ast.AST, field: str, value: Any) -> str:
    before = getattr(node, field)
    setattr(node, field, value)
    try:
        return ast.unparse(tree)
    finally:
        setattr(node, field, before)
