"""The suite language: which tests of a generated suite may be run, and why the others may not.

A test is ``assert CALL == EXPR`` (or ``is`` with True, False or None). CALL holds exactly one call of the
entry point, possibly inside pure builtins, operators and subscripts. Its arguments, and EXPR, are made of
literals, containers, arithmetic, comparisons, comprehensions, pure builtins and a few pure methods (``"a
b".split()``). There is no other attribute access, no name from the program and no introspection: a test
may see what a function returns, never how it is written. (What no syntax can tell, `sandbox.observation` sees to.)

Everything here works on syntax alone: nothing of a test is executed.
"""

import ast
import marshal
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import lru_cache

from sandbox.syntax import parse_expression

MARSHAL_VERSION = 4  # understood by every Python that may run the jail
MAX_TEXT = 10_000  # characters of one normalized call or stated answer
_MAX_SIZE = 2 * MAX_TEXT  # nodes and characters of texts: no shorter text has as many, and they are cheaper to count
_TOO_LONG = f"longer than {MAX_TEXT} characters"

# fmt: off
PURE_BUILTINS = frozenset((
    "abs", "all", "any", "ascii", "bin", "bool", "bytes", "chr", "complex", "dict", "divmod",
    "enumerate", "filter", "float", "frozenset", "hex", "int", "isinstance", "len", "list", "map",
    "max", "min", "oct", "ord", "pow", "range", "repr", "reversed", "round", "set", "sorted", "str",
    "sum", "tuple", "zip",
))
PURE_METHODS = frozenset((
    "capitalize", "casefold", "copy", "count", "decode", "difference", "encode", "endswith", "find",
    "index", "intersection", "isalnum", "isalpha", "isascii", "isdigit", "islower", "isnumeric",
    "isspace", "issubset", "issuperset", "istitle", "isupper", "items", "join", "keys", "lower",
    "lstrip", "replace", "rfind", "rindex", "rsplit", "rstrip", "split", "splitlines", "startswith",
    "strip", "swapcase", "symmetric_difference", "title", "union", "upper", "values", "zfill",
))
# fmt: on

_PLAIN_NODES = (
    *(ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript, ast.Slice),
)
_GRAMMAR_NODES = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class SuiteTest:
    """A test in the language; both texts are normalized by `ast.unparse`."""

    call: str
    stated: str


@dataclass(frozen=True)
class Rejected:
    """A statement that is no test of the language, and why."""

    reason: str


@dataclass(frozen=True)
class ReadCall:
    """A checked expression: the names that it takes from the program, and the form in which it is sent to the jail.

    The form is the expression's text, or, for a plain call with literal arguments, name and values (marshalled): those
    cost the jail no compilation.
    """

    names: frozenset[str]
    form: str | bytes


class OutsideLanguage(ValueError):
    """An expression leaves the suite language; the message says how."""


def parse_test(
    statement: ast.stmt, entry_point: str, bindings: Mapping[str, ast.expr] | None = None
) -> SuiteTest | Rejected:
    """Read one statement of a suite as a test of `entry_point`.

    `bindings` maps names to the expressions that earlier ``name = expr`` statements of the same block
    gave them; such a name, bare among the arguments of the entry point's call, is replaced by its
    expression.
    """
    try:
        call, stated = _sides(statement)
        _bind_arguments(call, entry_point, bindings or {})
        _check(call, entry_point, entry_calls=1)
        _check(stated, entry_point, entry_calls=0)
        test = SuiteTest(_normalized(call), _normalized(stated))
        # Written out anew, a text may nest deeper than what it was read from: the pool must be able to read it.
        read_call(test.call, entry_point)
        read_call(test.stated)
        return test
    except OutsideLanguage as error:
        return Rejected(str(error))
    except (RecursionError, MemoryError):
        return Rejected("nested too deeply")
    except ValueError as error:  # an integer that Python refuses to write in decimal
        return Rejected(str(error))


@lru_cache(maxsize=65_536)
def read_call(expression: str, entry_point: str = "") -> ReadCall:
    """Check one expression of a job, and read it as the jail takes it.

    The expression must be in the language, except that any number of the program's functions may be called. With
    `entry_point`, that name means the program's function even where a builtin has the same name. Raises
    OutsideLanguage.
    """
    if len(expression) > MAX_TEXT:
        raise OutsideLanguage(_TOO_LONG)
    try:
        tree = parse_expression(expression)
        walk = _Walk(entry_point, any_function=True)
        walk.visit(tree, frozenset())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise OutsideLanguage(f"{expression[:80]!r}: {error}") from None
    return ReadCall(frozenset(walk.called), _with_values(tree, walk.called) or expression)


def _with_values(tree: ast.expr, functions: Set[str]) -> bytes | None:
    """A plain call of one of the program's functions with literal arguments: (name, args, kwargs) in marshal's form."""
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in functions):
        return None
    if any(isinstance(node, ast.Set) for node in ast.walk(tree)):
        return None  # the order of its items would be this process's own
    try:
        args = tuple([ast.literal_eval(argument) for argument in tree.args])
        kwargs = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in tree.keywords}
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    if any(keyword.arg is None for keyword in tree.keywords):
        return None
    return marshal.dumps((tree.func.id, args, kwargs), MARSHAL_VERSION)


def _sides(statement: ast.stmt) -> tuple[ast.expr, ast.expr]:
    """The call and the stated answer of an assert statement."""
    if not isinstance(statement, ast.Assert):
        raise OutsideLanguage("not an assert")
    test = statement.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        raise OutsideLanguage("not of the form assert CALL == EXPR")
    operator, stated = test.ops[0], test.comparators[0]
    is_singleton = isinstance(stated, ast.Constant) and any(stated.value is single for single in (True, False, None))
    if isinstance(operator, ast.Eq) or (isinstance(operator, ast.Is) and is_singleton):
        return test.left, stated
    raise OutsideLanguage("not a comparison by == (or by is with True, False or None)")


def _bind_arguments(call: ast.expr, entry_point: str, bindings: Mapping[str, ast.expr]) -> None:
    for node in ast.walk(call):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == entry_point:
            node.args = [_bound(argument, bindings) for argument in node.args]
            for keyword in node.keywords:
                keyword.value = _bound(keyword.value, bindings)


def _bound(argument: ast.expr, bindings: Mapping[str, ast.expr]) -> ast.expr:
    return bindings.get(argument.id, argument) if isinstance(argument, ast.Name) else argument


def _check(tree: ast.expr, entry_point: str, entry_calls: int) -> None:
    walk = _Walk(entry_point)
    walk.visit(tree, frozenset())
    if walk.entry_calls != entry_calls:
        raise OutsideLanguage(
            f"calls {entry_point} {walk.entry_calls} times, not once"
            if entry_calls
            else f"the stated answer calls {entry_point}"
        )


def _normalized(tree: ast.expr) -> str:
    text = ast.unparse(tree)
    if len(text) > MAX_TEXT:
        raise OutsideLanguage(_TOO_LONG)
    return text


class _Walk:
    """Visits an expression, refusing what is outside the language."""

    def __init__(self, entry_point: str, any_function: bool = False) -> None:
        self.entry_point = entry_point
        self.any_function = any_function
        self.entry_calls = 0
        self.called: set[str] = set()
        self.size = 0

    def visit(self, node: ast.AST, bound: frozenset[str]) -> None:
        self.size += _size(node)
        if self.size > _MAX_SIZE:
            raise OutsideLanguage(_TOO_LONG)
        match node:
            case ast.Call():
                self._call(node, bound)
            case ast.Name(id=name):
                if name not in bound and (name == self.entry_point or name not in PURE_BUILTINS):
                    raise OutsideLanguage(f"the name {name}")
            case ast.BinOp(left=left, op=ast.Mod(), right=right) if _may_format(left, right):
                raise OutsideLanguage("a % that may turn a value into text")
            case _ if isinstance(node, _COMPREHENSIONS):
                self._comprehension(node, bound)
            case _ if isinstance(node, _PLAIN_NODES):
                for child in ast.iter_child_nodes(node):
                    self.visit(child, bound)
            case ast.keyword():
                self.visit(node.value, bound)
            case _ if not isinstance(node, _GRAMMAR_NODES):
                raise OutsideLanguage(_described(node))

    def _call(self, node: ast.Call, bound: frozenset[str]) -> None:
        match node.func:
            case ast.Name(id=name) if self._is_program_function(name, bound):
                self.entry_calls += 1
                self.called.add(name)
            case ast.Attribute(value=receiver, attr=method) if method in PURE_METHODS:
                self.visit(receiver, bound)
            case function:
                self.visit(function, bound)
        for argument in (*node.args, *node.keywords):
            self.visit(argument, bound)

    def _is_program_function(self, name: str, bound: frozenset[str]) -> bool:
        if name in bound or name.startswith("__"):
            return False
        return name == self.entry_point or (self.any_function and name not in PURE_BUILTINS)

    def _comprehension(self, node: ast.AST, bound: frozenset[str]) -> None:
        calls_before = self.entry_calls
        for generator in node.generators:  # type: ignore[attr-defined]
            self.visit(generator.iter, bound)
            bound = bound | self._targets(generator.target)
            for condition in generator.ifs:
                self.visit(condition, bound)
        parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)  # type: ignore[attr-defined]
        for part in parts:
            self.visit(part, bound)
        if self.entry_calls != calls_before and not self.any_function:
            raise OutsideLanguage(f"calls {self.entry_point} inside a comprehension")

    def _targets(self, target: ast.expr) -> frozenset[str]:
        names = [
            node
            for node in ast.walk(target)
            if not isinstance(node, ast.Tuple | ast.List | ast.Starred | ast.expr_context)
        ]
        if not all(isinstance(name, ast.Name) for name in names):
            raise OutsideLanguage("a comprehension over something else than names")
        found = frozenset(name.id for name in names if isinstance(name, ast.Name))
        if taken := found & (PURE_BUILTINS | {self.entry_point}):
            raise OutsideLanguage(f"a comprehension that rebinds {min(taken)}")
        return found


def _may_format(left: ast.expr, right: ast.expr) -> bool:
    """Whether ``left % right`` may write out something else than literals."""
    is_number = isinstance(left, ast.Constant) and isinstance(left.value, int | float | complex)
    return not is_number and any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(right))


def _size(node: ast.AST) -> int:
    match node:
        case ast.Constant(value=str() | bytes() as text):
            return 1 + len(text)
        case _:
            return 1


def _described(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=attribute):
            return f"the attribute {attribute}"
        case ast.Lambda():
            return "a lambda"
        case ast.JoinedStr():
            return "an f-string"
        case ast.NamedExpr():
            return "an assignment expression"
        case _:
            return f"the syntax {type(node).__name__}"
