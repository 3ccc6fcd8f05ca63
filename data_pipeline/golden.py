"""Turns a dataset's pytest functions into plain golden tests: lines `assert CALL == VALUE`.

Within a test function, names are replaced by the expressions they were bound to; loops over literal lists and
`pytest.mark.parametrize` are unrolled. An `assert EXPR` that is not an equality becomes `assert bool(EXPR) == True`. An
assert that is still outside the suite language (exceptions, mocks, objects of the solution's own classes) is dropped.
"""

import ast
import copy
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from data_pipeline.problem import BadRow, Problem
from data_pipeline.source_code import parse
from sandbox import EXACT, Task, Tolerance, classes, streams
from sandbox.language import Rejected, SuiteTest, parse_test
from sandbox.syntax import parse_expression, parse_module, replaced, stored_names

_MOST_TURNS = 1_000  # of a test function's loops together
_MOST_NODES = 20_000  # of a syntax tree that a name stands for

Bindings = dict[str, ast.expr]
Node = TypeVar("Node", bound=ast.AST)


def golden_tests(test_code: str, entry_point: str) -> tuple[str, ...]:
    """The golden tests of `entry_point` in order, a call only once.

    Raises BadRow if the code does not parse, or unrolls to too much.
    """
    return tests_among(asserts_of(parse(test_code, "the test code")), entry_point)


def asserts_of(module: ast.Module) -> Iterator[ast.Assert]:
    """The asserts of test functions, in order, without the names that these bind."""
    shared: Bindings = {}
    for node in module.body:
        if isinstance(node, ast.Assign):
            _assign(node, shared)
    for function in _test_functions(module):
        for bindings in _parametrizations(function, shared):
            yield from _asserts(function.body, bindings, iter(range(_MOST_TURNS)))


def tests_among(asserts: Iterable[ast.Assert], entry_point: str) -> tuple[str, ...]:
    """The golden tests among asserts, one for each distinct call."""
    found: dict[str, str] = {}
    for test in (_as_test(statement, entry_point) for statement in asserts):
        if isinstance(test, SuiteTest):
            found.setdefault(test.call, plain_line(test))
    return tuple(found.values())


def golden_tests_of_class(test_code: str, name: str) -> tuple[str, ...]:
    """The golden tests of a class, as calls of `sandbox.classes.DRIVER`.

    Raises BadRow if the code does not parse, RecursionError if it is nested too deeply.
    """
    module = parse(test_code, "the test code")
    module.body = classes.rewritten(module.body, name)
    return golden_tests(ast.unparse(module), classes.DRIVER)


def read_golden_tests(problem: Problem) -> tuple[SuiteTest, ...]:
    if problem.task is Task.STREAM:
        pairs = map(json.loads, problem.golden_tests)
        return tuple(SuiteTest(given, expected, problem.tolerance) for given, expected in pairs)
    tests = [_read_line(line, problem.called) for line in problem.golden_tests]
    return tuple(test for test in tests if isinstance(test, SuiteTest))


def stream_line(given: str, expected: str) -> str:
    """A golden test of a stream as a line, which `read_golden_tests` reads: what is put in, and what must come out."""
    return json.dumps([given, expected])


def _read_line(line: str, entry_point: str) -> SuiteTest | Rejected:
    return read_golden_test(parse_module(line).body[0], entry_point)


def read_golden_test(statement: ast.stmt, entry_point: str) -> SuiteTest | Rejected:
    """A test that a person wrote: one of the suite language, with any view, that may also state a tolerance.

    That is `assert CALL == pytest.approx(VALUE, rel=..., abs=...)` or `assert abs(CALL - VALUE) < EPS`. Any other
    expression (`assert CALL`, `assert CALL != VALUE`, `assert VALUE in CALL`) becomes `assert bool(...) == True`.
    """
    mirrored = _mirrored(statement)
    try:
        found = _approximate(statement) or (mirrored and _approximate(mirrored))
    except ValueError as error:
        return Rejected(str(error))
    tolerance = EXACT
    if found:
        call, stated, tolerance = found
        statement = ast.Assert(ast.Compare(call, [ast.Eq()], [stated]))
    read = _as_test(statement, entry_point)
    return replace(read, tolerance=tolerance) if isinstance(read, SuiteTest) else read


def _mirrored(statement: ast.stmt) -> ast.Assert | None:
    match statement:
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            return ast.Assert(ast.Compare(right, [ast.Eq()], [left]))
    return None


def golden_line(test: SuiteTest) -> str:
    """The test as a line, which `read_golden_test` reads as the same test."""
    if test.tolerance == EXACT:
        return plain_line(test)
    rel, absolute = test.tolerance.rtol, test.tolerance.atol
    return f"assert {test.call} == pytest.approx({test.stated}, rel={rel!r}, abs={absolute!r})"


def plain_golden_tests(problem: Problem) -> tuple[str, ...]:
    """A problem's golden tests in the language of suites, which has no tolerance."""
    if problem.task is not Task.FUNCTION:
        return tuple(spelled(test, problem) for test in read_golden_tests(problem))
    read = ((line, _read_line(line, problem.entry_point)) for line in problem.golden_tests)
    return tuple(
        plain_line(test) if isinstance(test, SuiteTest) and test.tolerance != EXACT else line for line, test in read
    )


def spelled(test: SuiteTest, problem: Problem) -> str:
    """The test as a suite of the problem's has it, without its tolerance."""
    if problem.task is Task.STREAM:
        return streams.spelled(test.call, test.stated)
    if problem.task is Task.CLASS:
        return classes.spelled(test.call, test.stated, problem.entry_point)
    return plain_line(test)


def plain_line(test: SuiteTest) -> str:
    """The test in the language of suites, without its tolerance."""
    return f"assert {test.call} == {test.stated}"


def _approximate(statement: ast.stmt) -> tuple[ast.expr, ast.expr, Tolerance] | None:
    """Call, stated answer and tolerance of a test that states one. Raises ValueError for a tolerance that is none."""
    match statement:
        case ast.Assert(
            test=ast.Compare(
                left=call,
                ops=[ast.Eq()],
                comparators=[
                    ast.Call(
                        func=ast.Attribute(value=ast.Name(id="pytest"), attr="approx"), args=[stated], keywords=keywords
                    )
                ],
            )
        ):
            given = {keyword.arg: _literal(keyword.value) for keyword in keywords}
            if not given.keys() <= {"rel", "abs"}:
                raise ValueError("of pytest.approx only rel and abs")
            rtol = given.get("rel", 0.0 if "abs" in given else 1e-6)  # pytest's own defaults
            return call, stated, Tolerance(given.get("abs", 1e-12), rtol)
        case ast.Assert(
            test=ast.Compare(
                left=ast.Call(
                    func=ast.Name(id="abs"), args=[ast.BinOp(left=call, op=ast.Sub(), right=stated)], keywords=[]
                ),
                ops=[ast.Lt() | ast.LtE()],
                comparators=[most],
            )
        ) if 0 < (atol := _literal(most)) < 1 or atol == math.inf:  # whole numbers have no tolerance: see `Tolerance`
            return call, stated, Tolerance(atol)
    return None


def _literal(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        try:
            return float(node.value)  # type: ignore[arg-type]
        except OverflowError:
            raise ValueError("a tolerance that is larger than any float") from None
    raise ValueError("a tolerance that is not a plain number")


def _test_functions(module: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in module.body:
        functions = node.body if isinstance(node, ast.ClassDef) else [node]
        for function in functions:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test"):
                yield function


def _parametrizations(function: ast.FunctionDef, shared: Bindings) -> list[Bindings]:
    cases = [dict(shared)]
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("mark.parametrize"):
            names, values = (*decorator.args, None, None)[:2]
            if not isinstance(names, ast.Constant) or not isinstance(names.value, str) or values is None:
                return []
            target = parse_expression(names.value)
            cases = [case | more for case in cases for more in _unrolled(target, values, case)]
    return cases


def _asserts(body: Sequence[ast.stmt], bindings: Bindings, turns: Iterator[int]) -> Iterator[ast.Assert]:
    """The assert statements in straight-line execution of the body, with names replaced; a loop may have `turns` left.

    `bindings` follows the execution: a name used in anything other than an assignment or assert is forgotten, because
    its value may have changed.
    """
    for statement in body:
        match statement:
            case ast.Assert():
                yield _substituted(statement, bindings)
            case ast.Assign():
                _assign(statement, bindings)
            case ast.For(target=target, iter=values, body=inner):
                for more in _unrolled(target, values, bindings):
                    if next(turns, None) is None:
                        raise BadRow(f"the loops of a test have more than {_MOST_TURNS} turns")
                    yield from _asserts(inner, bindings | more, turns)
                _forget(statement, bindings)
            case _:
                _forget(statement, bindings)


def _assign(statement: ast.Assign, bindings: Bindings) -> None:
    value = _substituted(statement.value, bindings)
    if sum(1 for _ in ast.walk(value)) > _MOST_NODES:
        raise BadRow("a value of a test is too long, with what its names stand for")
    for target in statement.targets:
        _forget(target, bindings)
    if len(statement.targets) == 1:
        bindings.update(_matched(statement.targets[0], value) or {})


def _forget(node: ast.AST, bindings: Bindings) -> None:
    for name in ast.walk(node):
        if isinstance(name, ast.Name):
            bindings.pop(name.id, None)


def _unrolled(target: ast.expr, values: ast.expr, bindings: Mapping[str, ast.expr]) -> list[Bindings]:
    """The bindings of a loop's target, turn by turn; none if the values are not a literal list or tuple."""
    values = _substituted(values, bindings)
    if not isinstance(values, ast.List | ast.Tuple):
        return []
    turns = [_matched(target, value) for value in values.elts]
    return [] if None in turns else [turn for turn in turns if turn is not None]


def _matched(target: ast.expr, value: ast.expr) -> Bindings | None:
    """The names of the target with their parts of the value; None if the two do not match."""
    if isinstance(target, ast.Name):
        return {target.id: value}
    if not isinstance(target, ast.Tuple | ast.List) or not isinstance(value, ast.Tuple | ast.List):
        return None
    if len(target.elts) != len(value.elts):
        return None
    bindings: Bindings = {}
    for part, part_value in zip(target.elts, value.elts, strict=True):
        matched = _matched(part, part_value)
        if matched is None:
            return None
        bindings |= matched
    return bindings


def _substituted(node: Node, bindings: Mapping[str, ast.expr]) -> Node:
    visible = bindings.keys() - stored_names(node)
    return replaced(
        copy.deepcopy(node),
        lambda each: copy.deepcopy(bindings[each.id]) if isinstance(each, ast.Name) and each.id in visible else None,
    )


def _as_test(statement: ast.stmt, entry_point: str) -> SuiteTest | Rejected:
    test = parse_test(statement, entry_point, any_view=True)
    if isinstance(test, SuiteTest) or not isinstance(statement, ast.Assert):
        return test
    truth = ast.Call(ast.Name("bool", ast.Load()), [statement.test], [])
    as_truth = parse_test(ast.Assert(ast.Compare(truth, [ast.Eq()], [ast.Constant(True)])), entry_point, any_view=True)
    return as_truth if isinstance(as_truth, SuiteTest) else test
