"""The suite language: which tests of a generated suite may be run, and why the others may not.

A test is ``assert CALL == EXPR`` (or ``is`` with True, False or None). CALL holds exactly one call of the entry point.
Its arguments, and EXPR, are made of literals, containers, arithmetic, comparisons, comprehensions, pure builtins and a
few pure methods (``"a b".split()``). Around the call stand at most the wrappers of `WRAPPERS` and constant indices:
each keeps enough of the value that no test can be right without knowing it. There is no other attribute access, no name
from the program, no introspection, and `is` only with None, True and False: a test may see what a function returns,
never how it is written.

A judge splits an expression in three (`read_call`): the program's process evaluates the call alone, on argument values
that were computed elsewhere, and what stands around the call, its *view*, is computed on the returned plain data by a
process that never saw the program. Nothing of a test is executed here.
"""

import ast
import marshal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from sandbox.grammar import MAX_TEXT, RETURNED, TOO_LONG, OutsideLanguage, Walk, bounded, described, is_singleton
from sandbox.inside.encoding import encode
from sandbox.syntax import is_call_of, one_at_a_time, parse_expression, replaced
from sandbox.tolerance import EXACT, Tolerance

MAX_LITERAL = 20_000  # characters of a literal that is read
MARSHAL_VERSION = 4  # understood by every Python that may run the jail

# What may stand around the call in a generated test. A comparison or `bool` there would be right without its author
# knowing the value ("it is not 12345"), arithmetic would make many tests of one ("... + 1", "... + 2"), and `str` tells
# apart what is equal. Of what keeps a part of the value alone, one is the most: "the length of its first character".
_WHOLE = frozenset(("abs", "dict", "float", "frozenset", "list", "round", "set", "sorted", "tuple"))
_PART = frozenset(("len", "max", "min", "sum"))
WRAPPERS = _WHOLE | _PART


@dataclass(frozen=True)
class SuiteTest:
    """A test in the language; both texts are normalized by `ast.unparse`.

    tolerance: of a test that a person wrote. A generated test cannot state one.
    """

    call: str
    stated: str
    tolerance: Tolerance = EXACT


@dataclass(frozen=True)
class Rejected:
    reason: str


@dataclass(frozen=True)
class ReadCall:
    """An expression of a job, as a judge takes it apart.

    `function` of the program is called with `arguments`: (args, kwargs) marshalled where they are literals, else the
    text of an expression for them. `view` is what is computed of the returned value, called `RETURNED` there; None: the
    value itself. Without a function (None), `arguments` is an expression that needs no program.
    """

    function: str | None
    arguments: bytes | str
    view: str | None


def parse_test(
    statement: ast.stmt, entry_point: str, bindings: Mapping[str, ast.expr] | None = None, *, any_view: bool = False
) -> SuiteTest | Rejected:
    """Read one statement of a suite as a test of `entry_point`.

    `bindings` maps names to the expressions that earlier ``name = expr`` statements of the same block gave them; such a
    name, bare among the arguments of the entry point's call, is replaced by its expression. `any_view` allows any
    expression of the language around the call, not only `WRAPPERS`: for tests whose author earns nothing by them.
    """
    try:
        call, stated = _sides(statement, entry_point)
        _bind_arguments(call, entry_point, bindings or {})
        _check(call, entry_point, entry_calls=1)
        _check(stated, entry_point, entry_calls=0)
        if not any_view:
            _check_wrappers(call, entry_point)
        test = SuiteTest(_normalized(call), _normalized(stated))
        # Written out again, a text may nest deeper than what it was read from: the pool must be able to read it.
        read_call(test.call, entry_point)
        read_call(test.stated)
        return test
    except OutsideLanguage as error:
        return Rejected(str(error))
    except (RecursionError, MemoryError):
        return Rejected("nested too deeply")
    except ValueError as error:  # an integer that Python refuses to write in decimal
        return Rejected(str(error))


@lru_cache(maxsize=4_096)
def read_call(expression: str, entry_point: str = "") -> ReadCall:
    """Check one expression of a job, and take it apart.

    The expression must be in the language, with any view; the one function that it calls may be any of the program's.
    With `entry_point`, that name means the program's function even where a builtin has the same name. Raises
    OutsideLanguage.
    """
    if len(expression) > MAX_TEXT:
        raise OutsideLanguage(TOO_LONG)
    try:
        tree = parse_expression(expression)
        walk = Walk(entry_point, any_function=True)
        walk.visit(tree, frozenset())
        if walk.entry_calls > 1:
            raise OutsideLanguage(f"{expression[:80]!r}: calls the program {walk.entry_calls} times, not once")
        read = _split(tree, walk.call) if walk.call else ReadCall(None, expression, None)
        for computed in (read.arguments, read.view):
            if isinstance(computed, str):
                bounded(computed)  # raises where it could not be written out
        return read
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, OutsideLanguage):
            raise
        raise OutsideLanguage(f"{expression[:80]!r}: {error}") from None


def _split(tree: ast.expr, call: ast.Call) -> ReadCall:
    assert isinstance(call.func, ast.Name)
    view = None
    if tree is not call:
        view = ast.unparse(replaced(tree, lambda node: ast.Name(RETURNED, ast.Load()) if node is call else None))
    return ReadCall(call.func.id, _arguments(call), view)


def _arguments(call: ast.Call) -> bytes | str:
    """(args, kwargs) as `ReadCall` has them. Sets are not literals: their order differs between processes."""
    values = [keyword.value for keyword in call.keywords]
    named = ast.Dict([ast.Constant(keyword.arg) for keyword in call.keywords], values)
    text = ast.unparse(ast.Tuple([ast.Tuple(call.args, ast.Load()), named], ast.Load()))
    if not all(map(_is_literal, (*call.args, *values))):
        return text
    try:
        # Compiled, not read by `ast.literal_eval`: what is one object in a module that makes the call is one here.
        with one_at_a_time:
            code = compile(text, "<arguments>", "eval")
        return marshal.dumps(eval(code, {"__builtins__": {}}), MARSHAL_VERSION)
    except (ValueError, TypeError, OverflowError):
        return text


def _is_literal(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return value is not ...
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return all(map(_is_literal, items))
        case ast.Dict(keys=keys, values=values):
            return all(key is not None and _is_literal(key) for key in keys) and all(map(_is_literal, values))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            return True
        case _:
            return False


def encode_literal(expression: str) -> str | None:
    if len(expression) > MAX_LITERAL:
        return None
    try:
        return encode(ast.literal_eval(parse_expression(expression.strip())))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, OverflowError):
        return None


def _sides(statement: ast.stmt, entry_point: str) -> tuple[ast.expr, ast.expr]:
    """The call and the stated answer of an assert statement, ``(CALL == EXPR) == True`` read as what it contains, and
    ``EXPR == CALL`` with its sides swapped.
    """
    if not isinstance(statement, ast.Assert):
        raise OutsideLanguage("not an assert")
    call, stated = _compared(statement.test)
    while isinstance(stated, ast.Constant) and stated.value is True and _is_comparison(call):
        call, stated = _compared(call)
    calls_stated, calls_call = (
        any(is_call_of(node, entry_point) for node in ast.walk(side)) for side in (stated, call)
    )
    return (stated, call) if calls_stated and not calls_call else (call, stated)


def _compared(test: ast.expr) -> tuple[ast.expr, ast.expr]:
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        raise OutsideLanguage("not of the form assert CALL == EXPR")
    if not _is_comparison(test):
        raise OutsideLanguage("not a comparison by == (or by is with True, False or None)")
    return test.left, test.comparators[0]


def _is_comparison(node: ast.expr) -> bool:
    match node:
        case ast.Compare(ops=[ast.Eq()]):
            return True
        case ast.Compare(ops=[ast.Is()], comparators=[stated]):
            return is_singleton(stated)
        case _:
            return False


def _bind_arguments(call: ast.expr, entry_point: str, bindings: Mapping[str, ast.expr]) -> None:
    calls = [node for node in ast.walk(call) if is_call_of(node, entry_point)]
    for node in calls:  # all found before any is changed: a bound expression may call the entry point itself
        node.args = [_bound(argument, bindings) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = _bound(keyword.value, bindings)


def _bound(argument: ast.expr, bindings: Mapping[str, ast.expr]) -> ast.expr:
    return bindings.get(argument.id, argument) if isinstance(argument, ast.Name) else argument


def _check(tree: ast.expr, entry_point: str, entry_calls: int) -> None:
    walk = Walk(entry_point)
    walk.visit(tree, frozenset())
    if walk.entry_calls != entry_calls:
        raise OutsideLanguage(
            f"calls {entry_point} {walk.entry_calls} times, not once"
            if entry_calls
            else f"the stated answer calls {entry_point}"
        )


def _check_wrappers(node: ast.expr, entry_point: str) -> None:
    """Refuse anything but wrappers and a constant index around the call, and more than one that keeps a part alone."""
    parts = 0
    while not is_call_of(node, entry_point):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name in WRAPPERS:
                parts += name in _PART
                node = inner
            case ast.Call(
                func=ast.Name(id="sorted"), args=[inner], keywords=[ast.keyword("reverse", ast.Constant(bool()))]
            ):
                node = inner
            case ast.Call(func=ast.Name(id="round"), args=[inner, ast.Constant(int() as digits)], keywords=[]) if (
                digits > 0
            ):
                node = inner
            case ast.Subscript(value=inner, slice=index) if _is_literal(index):
                parts += 1
                node = inner
            case _:
                raise OutsideLanguage(
                    f"around the call {described(node)}: only {', '.join(sorted(WRAPPERS))}, an index"
                )
        if parts > 1:
            raise OutsideLanguage("around the call a part of a part")


def _normalized(tree: ast.expr) -> str:
    text = ast.unparse(tree)
    if len(text) > MAX_TEXT:
        raise OutsideLanguage(TOO_LONG)
    return text
