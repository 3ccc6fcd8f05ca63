"""Tests of classes: an object is made, its methods are called, and what the last call returns is compared.

    made = Stack(3)
    made.push(1)
    assert made.top() == 1

For the judge a test is one call of a function that is put behind every program (`driver`), with plain data alone:
``run_calls((3,), [("push", (1,)), ("top", ())])``. An object never leaves the program's process, and nothing of a test
is executed here.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandbox.inside.nodes import Signature
from sandbox.syntax import is_call_of, parse_expression, size_of, stored_names

DRIVER = "run_calls"
MAX_CALLS = 50  # of one object; what follows is not read
MAX_NODES = 200_000  # syntax nodes that names stand for, wherever they are used; what follows is not read
MAX_DEPTH = 10  # of blocks within blocks, each of which is walked once more for each around it; others are not read

_OBJECT = "made"  # what a test that is written out calls its object
_TEXT = """

from sandbox.inside import nodes as _nodes
{driver} = _nodes.runner(globals(), {name!r}, {signatures!r})
"""


def driver(name: str, signatures: Mapping[str, Signature]) -> str:
    """What stands behind a program, and makes objects of its class; `signatures` of methods with nodes in them."""
    return _TEXT.format(driver=DRIVER, name=name, signatures=signatures)


def rewritten(statements: Sequence[ast.stmt], name: str) -> list[ast.stmt]:
    """The statements with calls of objects of the class as calls of `DRIVER`, each with all that came before it.

    A call counts where it is a whole statement, what a name is given, or what an assert looks at. What else is done
    with an object, or with a value that one was given, ends what is known of it, so that no test can hold another
    history than Python's. The trees are changed. Raises RecursionError.
    """
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.Name) and node.id == DRIVER:
            node.id = f"_{DRIVER}"  # which no test may call
    return _Block(name, frozenset(), _Room(MAX_NODES)).read(statements)


def spelled(call: str, stated: str, name: str) -> str:
    *before, last = called(call, name).split("\n")
    return "\n".join([*before, f"assert {last} == {stated}"])


def called(call: str, name: str) -> str:
    tree = parse_expression(call)
    driven = next(node for node in ast.walk(tree) if is_call_of(node, DRIVER))
    made, calls = driven.args
    assert isinstance(made, ast.Tuple) and isinstance(calls, ast.List)
    *before, last = map(_parts, calls.elts)
    new = ast.Call(ast.Name(name), made.elts, [])
    lines: list[str] = []
    thing: ast.expr = new
    if before:
        thing = ast.Name(_OBJECT)
        done = [ast.Call(ast.Attribute(thing, method), arguments, []) for method, arguments in before]
        lines = [f"{_OBJECT} = {ast.unparse(new)}", *map(ast.unparse, done)]
    driven.func, driven.args = ast.Attribute(thing, last[0]), last[1]
    return "\n".join([*lines, ast.unparse(tree)])


def methods(call: str) -> list[str]:
    driven = next(node for node in ast.walk(parse_expression(call)) if is_call_of(node, DRIVER))
    calls = driven.args[1]
    return [_parts(each)[0] for each in calls.elts] if isinstance(calls, ast.List) else []


@dataclass
class _Room:
    left: int

    def take(self, nodes: int) -> bool:
        self.left -= nodes
        return self.left >= 0


@dataclass(frozen=True)
class _Sized:
    """An expression, and how many nodes it has with those that names in it stand for."""

    tree: ast.expr
    size: int


class _Block:
    """Reads the statements of one block in order. fixed: names that have one value wherever they stand in it."""

    def __init__(self, name: str, fixed: frozenset[str], room: _Room, depth: int = 0) -> None:
        self._name = name
        self._depth = depth
        self._fixed = fixed | _BUILTINS
        self._room = room
        self._objects: dict[str, list[_Sized]] = {}  # by name: what it was made with, then its calls
        self._values: dict[str, _Sized] = {}  # of names that stand for expressions without names
        self._results: dict[str, _Sized] = {}  # of names that stand for what a call returned

    def read(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [each for statement in statements for each in self._read(statement)]

    def _read(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)], value=value):
                yield from self._assign(target, value, statement)
            case ast.Expr(value=value):
                if self._noted(value) is None:
                    self._forget(statement)
            case ast.Assert(test=test, msg=message):
                statement.test = self._looked_at(test)
                self._forget(*(each for each in (statement.test, message) if each is not None))
                yield statement
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._forget(statement)
                arguments = {node.arg for node in ast.walk(statement.args) if isinstance(node, ast.arg)}
                statement.body = self._inner(arguments, statement.body)
                yield statement
            case ast.ClassDef():
                self._forget(statement)
                statement.body = self._inner(set(), statement.body)
                yield statement
            case _:
                self._forget(statement)
                targets = stored_names(statement.target) if isinstance(statement, ast.For) else set()
                for holder in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                    for part in ("body", "orelse", "finalbody"):
                        if inner := getattr(holder, part, None):
                            setattr(holder, part, self._inner(targets, inner))
                yield statement

    def _inner(self, fixed: set[str], body: list[ast.stmt]) -> list[ast.stmt]:
        if self._depth == MAX_DEPTH:
            return body
        fixed -= {name for statement in body for name in stored_names(statement)}
        return _Block(self._name, frozenset(fixed), self._room, self._depth + 1).read(body) or [ast.Pass()]

    def _assign(self, target: str, value: ast.expr, statement: ast.Assign) -> Iterator[ast.stmt]:
        made = self._tuple_of(value) if is_call_of(value, self._name) else None
        result = self._noted(value) if made is None else None
        if made is None and result is None:
            self._forget(value)
        self._drop({target})
        if made is not None:
            self._objects[target] = [made]
        elif result is not None:
            self._results[target] = result
        else:
            if self._is_closed(value):
                self._values[target] = _Sized(value, size_of(value))
            yield statement

    def _looked_at(self, node: ast.expr) -> ast.expr:
        """What an assert compares, with a call in the place of the name, or of the call, that stands for it."""
        match node:
            case ast.Compare(left=left, comparators=sides):
                node.left, node.comparators = self._looked_at(left), [self._looked_at(side) for side in sides]
            case ast.Call(func=ast.Name(), args=arguments) if not is_call_of(node, self._name):
                node.args = [self._looked_at(argument) for argument in arguments]
            case ast.Subscript(value=value):
                node.value = self._looked_at(value)
            case ast.UnaryOp(operand=value):
                node.operand = self._looked_at(value)
            case ast.BinOp(left=left, right=right):
                node.left, node.right = self._looked_at(left), self._looked_at(right)
            case ast.Name(id=name) if name in self._results and self._room.take(self._results[name].size):
                return self._results[name].tree
            case ast.Call():
                result = self._noted(node)
                return result.tree if result else node
        return node

    def _noted(self, node: ast.expr) -> _Sized | None:
        """A call of an object's method as one of `DRIVER`, noted as done; None where it is anything else."""
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=thing), attr=method)) if thing in self._objects:
                calls = self._objects[thing]
            case ast.Call(func=ast.Attribute(value=made, attr=method)) if is_call_of(made, self._name):
                calls = [given] if (given := self._tuple_of(made)) is not None else []
            case _:
                return None
        arguments = self._tuple_of(node)
        if method.startswith("_") or arguments is None or not 0 < len(calls) <= MAX_CALLS:
            return None
        calls.append(_Sized(ast.Tuple([ast.Constant(method), arguments.tree], ast.Load()), arguments.size))
        size = sum(each.size for each in calls)
        if not self._room.take(size):
            return None
        made, *done = [each.tree for each in calls]
        return _Sized(ast.Call(ast.Name(DRIVER, ast.Load()), [made, ast.List(done, ast.Load())], []), size)

    def _tuple_of(self, call: ast.Call) -> _Sized | None:
        if call.keywords or any(isinstance(each, ast.Starred) for each in call.args):
            return None
        bound, size = [], 0
        for argument in call.args:
            value = self._values.get(argument.id) if isinstance(argument, ast.Name) else None
            if value is None and not self._is_closed(argument):
                return None
            bound.append(value.tree if value else argument)
            size += value.size if value else size_of(argument)
        return _Sized(ast.Tuple(bound, ast.Load()), size)

    def _is_closed(self, value: ast.expr) -> bool:
        names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
        return names <= self._fixed | stored_names(value)

    def _forget(self, *trees: ast.AST) -> None:
        """Forget what something is done with; all objects, where it is a value that one of them may hold."""
        names = {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}
        if any(name in self._values or name in self._results for name in names):
            self._objects.clear()
        self._drop(names)

    def _drop(self, names: set[str]) -> None:
        for known in (self._objects, self._values, self._results):
            for name in names:
                known.pop(name, None)


_BUILTINS = frozenset(dir(builtins))


def _parts(call: ast.expr) -> tuple[str, list[ast.expr]]:
    match call:
        case ast.Tuple(elts=[ast.Constant(value=str() as method), ast.Tuple(elts=arguments)]):
            return method, arguments
        case _:
            raise ValueError(f"{ast.unparse(call)} is not a call of a method")
