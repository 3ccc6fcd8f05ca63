"""Mutants of references, made before the first step: held out, for what a test finds; trained on, for a reward.

A mutant is the program with one change, as mutation testing makes them: a comparison moved over its boundary or
reversed, another operator, a number one off, a condition negated, `min` for `max`. (Figures on UnLeakedTestBench are of
cosmic-ray's mutants, `evals.mutants`.)
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from codea1_jax.game.judging import golden_tests, submit_calls
from codea1_jax.runtime.gather import gathered, is_mine
from data_pipeline import Problem
from data_pipeline.checking import settled
from sandbox import Judge, Status, verdict_on
from sandbox.syntax import parse_module

_DRAWN = 4  # mutants made for each that is asked for: some behave as others do, or as the reference

_OTHERS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
_OTHER_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "sum": "len", "len": "sum"}


def with_mutants(problems: Sequence[Problem], judge: Judge, count: int, seed: int) -> tuple[Problem, ...]:
    """The problems, each with its own mutants, or with at most `count` of its solution; the same for the same seed.

    Of a solution's mutants those are left out that golden tests cannot tell from it or from another one, that do not
    load, and that run out of time or memory, as they would on the tests of every suite. Each host makes and judges
    those of its share. Raises SandboxError if the judge fails.
    """
    bare = {i: problem for i, problem in enumerate(problems) if not problem.mutants and is_mine(i)}
    found = gathered(lambda: {i: _distinct(judge, p, drawn(p.solution, _DRAWN * count, seed)) for i, p in bare.items()})
    return tuple(replace(p, mutants=found[i][:count]) if i in found else p for i, p in enumerate(problems))


def drawn(program: str, count: int, seed: int) -> tuple[str, ...]:
    """At most `count` different mutants of a program, at random; none of one that is nested too deeply."""
    try:
        tree = parse_module(program)
        changes = [(node, *change) for node in ast.walk(tree) for change in _changes(node)]
        chosen = random.Random(f"mutants {seed} {program}").sample(changes, min(count, len(changes)))
        return tuple(dict.fromkeys(_changed(tree, *change) for change in chosen))
    except RecursionError:
        return ()


def _changes(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """What a node may be given in one of its fields: the field, and the new value."""
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
    """The program with the change, which is taken back."""
    before = getattr(node, field)
    setattr(node, field, value)
    try:
        return ast.unparse(tree)
    finally:
        setattr(node, field, before)


def _distinct(judge: Judge, problem: Problem, mutants: Sequence[str]) -> tuple[str, ...]:
    """Those that golden tests tell from the reference and from each other."""
    tests = golden_tests(problem, judge)
    calls, expected = [test.call for test in tests], {test.call: test.expected for test in tests}
    pending = [(each, submit_calls(judge, problem, problem.driven(each), calls)) for each in mutants]
    distinct: dict[tuple[object, ...], str] = {}
    for mutant, outcomes in pending:
        found = outcomes.result()
        by_call = settled(judge, problem, found.by_call, expected)
        ends = tuple((by_call[call].status, by_call[call].value) for call in calls)
        spent = {Status.TIMED_OUT, Status.OUT_OF_MEMORY} & {status for status, _ in ends}
        if found.valid and not spent and not all(verdict_on(by_call[test.call], test).passed for test in tests):
            distinct.setdefault(ends, mutant)
    return tuple(distinct.values())
