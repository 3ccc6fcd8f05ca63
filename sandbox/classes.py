"""Tests of classes: an object is made, its methods are called, and what the last call returns is compared.

    made = Stack(3)
    made.push(1)
    assert made.top() == 1

For the judge a test is one call of a function that is put behind every program (`with_driver`), with plain data alone:
``run_calls((3,), [("push", (1,)), ("top", ())])``. So the suite language, the jail and the comparison are those of
functions, and an object never leaves the program's process.

Everything here works on syntax alone: nothing of a test is executed.
"""

import ast
from collections.abc import Iterator, Sequence

from sandbox.syntax import is_call_of, parse_expression

DRIVER = "run_calls"
MAX_CALLS = 50  # of one object; what follows is not read

_OBJECT = "made"  # what a test that is written out calls its object
_TEXT = """

def {driver}(made, calls):
    thing = {name}(*made)
    for method, arguments in calls:
        value = getattr(thing, method)(*arguments)
    return value
"""


def with_driver(program: str, name: str) -> str:
    """A program, and the function by which the judge makes objects of its class and calls their methods."""
    return program + _TEXT.format(driver=DRIVER, name=name)


def rewritten(statements: Sequence[ast.stmt], name: str) -> list[ast.stmt]:
    """The statements with calls of objects of the class as calls of `DRIVER`, each with all that came before it.

    The trees are changed. Calls with arguments by name, of methods that begin with an underscore, and of objects that
    anything else was done with, stay as they are, which no test may hold. Raises RecursionError.
    """
    return _Block(name).read(statements)


def spelled(call: str, stated: str, name: str) -> str:
    """A test as a suite has it, in one line if only one method is called."""
    *before, last = called(call, name).split("\n")
    return "\n".join([*before, f"assert {last} == {stated}"])


def called(call: str, name: str) -> str:
    """What a test does with an object, a line each; the last one is what it looks at."""
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
        lines = [f"{_OBJECT} = {ast.unparse(new)}", *(ast.unparse(_method(thing, *each)) for each in before)]
    driven.func, driven.args = ast.Attribute(thing, last[0]), last[1]
    return "\n".join([*lines, ast.unparse(tree)])


def methods(call: str) -> list[str]:
    """The names of the methods that a test calls, in order."""
    driven = next(node for node in ast.walk(parse_expression(call)) if is_call_of(node, DRIVER))
    calls = driven.args[1]
    return [_parts(each)[0] for each in calls.elts] if isinstance(calls, ast.List) else []


class _Block:
    """Reads the statements of one block in order; inner blocks see its objects, and what they do to them is unknown."""

    def __init__(self, name: str, outer: "_Block | None" = None) -> None:
        self._name = name
        self.objects: dict[str, list[ast.expr]] = {}  # by name: what it was made with, then its calls
        self.values: dict[str, ast.expr] = {}  # of names that stand for expressions, calls of objects among them
        if outer is not None:
            self.objects = {name: list(calls) for name, calls in outer.objects.items()}
            self.values = dict(outer.values)

    def read(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [each for statement in statements for each in self._read(statement)]

    def _read(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)], value=value):
                yield from self._assign(target, value, statement)
            case ast.Assert() | ast.Expr():
                read = _Calls(self, self._name).visit(statement)
                self._forget_mentioned(read)
                if isinstance(read, ast.Assert):
                    yield read
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                statement.body = _Block(self._name).read(statement.body) or [ast.Pass()]
                yield statement
            case _:
                mentioned = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
                for holder in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                    for part in ("body", "orelse", "finalbody"):
                        if inner := getattr(holder, part, None):
                            setattr(holder, part, _Block(self._name, self).read(inner) or [ast.Pass()])
                yield statement
                for each in mentioned:
                    self._forget(each)

    def _assign(self, target: str, value: ast.expr, statement: ast.Assign) -> Iterator[ast.stmt]:
        if is_call_of(value, self._name) and _is_plain(value):
            self._forget(target)
            self.objects[target] = [self.tuple_of(value.args)]
            return
        statement.value = _Calls(self, self._name).visit(value)
        self._forget_mentioned(statement)
        self.values[target] = statement.value
        yield statement

    def tuple_of(self, arguments: Sequence[ast.expr]) -> ast.expr:
        """The arguments, with what bare names stand for in their place."""
        bound = [self.values.get(each.id, each) if isinstance(each, ast.Name) else each for each in arguments]
        return ast.Tuple(bound, ast.Load())

    def _forget(self, name: str) -> None:
        self.objects.pop(name, None)
        self.values.pop(name, None)

    def _forget_mentioned(self, tree: ast.AST) -> None:
        """Forget objects that something was done with, and names that have another meaning now."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and (node.id in self.objects or not isinstance(node.ctx, ast.Load)):
                self._forget(node.id)


class _Calls(ast.NodeTransformer):
    """Puts a call of `DRIVER` in the place of each call of an object of a block, and notes it there."""

    def __init__(self, block: _Block, name: str) -> None:
        self._block = block
        self._name = name

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=ast.Name(id=thing), attr=method) if thing in self._block.objects:
                calls = self._block.objects[thing]
            case ast.Attribute(value=made, attr=method) if is_call_of(made, self._name) and _is_plain(made):
                calls = [self._block.tuple_of(made.args)]
            case _:
                return node
        if method.startswith("_") or not _is_plain(node) or len(calls) > MAX_CALLS:
            return node
        calls.append(ast.Tuple([ast.Constant(method), self._block.tuple_of(node.args)], ast.Load()))
        return ast.Call(ast.Name(DRIVER, ast.Load()), [calls[0], ast.List(calls[1:], ast.Load())], [])

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name of what a call returned stands for the call."""
        value = self._block.values.get(node.id)
        return value if value is not None and is_call_of(value, DRIVER) else node


def _is_plain(call: ast.Call) -> bool:
    """Whether all arguments are by position."""
    return not call.keywords and not any(isinstance(each, ast.Starred) for each in call.args)


def _parts(call: ast.expr) -> tuple[str, list[ast.expr]]:
    """The method of one call, and its arguments."""
    match call:
        case ast.Tuple(elts=[ast.Constant(value=str() as method), ast.Tuple(elts=arguments)]):
            return method, arguments
        case _:
            raise ValueError(f"{ast.unparse(call)} is not a call of a method")


def _method(thing: ast.expr, method: str, arguments: list[ast.expr]) -> ast.expr:
    return ast.Call(ast.Attribute(thing, method), arguments, [])
