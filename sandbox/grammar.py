"""The expressions of the suite language: literals, containers, arithmetic, comparisons, comprehensions, calls of pure
builtins, of a few pure methods (``"a b".split()``), and of the program's function. Nothing is executed here.
"""

import ast
from functools import lru_cache
from typing import Any

from sandbox.inside.evaluation import RETURNED
from sandbox.syntax import parse_expression

MAX_TEXT = 10_000  # characters of one normalized call or stated answer
_MAX_SIZE = 2 * MAX_TEXT  # nodes and characters of texts: no shorter text has as many, and they are cheaper to count
TOO_LONG = f"longer than {MAX_TEXT} characters"

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

HELPERS = frozenset(("_run_", "_each_", "_made_", "_times_", "_power_", "_shift_"))  # of `bounded`

_PLAIN_NODES = (
    *(ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript, ast.Slice),
)
_GRAMMAR_NODES = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class OutsideLanguage(ValueError):
    """An expression leaves the suite language; the message explains how."""


def is_singleton(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


class Walk:
    def __init__(self, entry_point: str, any_function: bool = False) -> None:
        self.entry_point = entry_point
        self.any_function = any_function
        self.entry_calls = 0
        self.call: ast.Call | None = None  # the last one of the program's functions
        self.size = 0

    def visit(self, node: ast.AST, bound: frozenset[str]) -> None:
        text = node.value if isinstance(node, ast.Constant) else None
        self.size += 1 + (len(text) if isinstance(text, str | bytes) else 0)
        if self.size > _MAX_SIZE:
            raise OutsideLanguage(TOO_LONG)
        match node:
            case ast.Call():
                self._call(node, bound)
            case ast.Compare(ops=operators, comparators=compared) if any(
                isinstance(operator, ast.Is | ast.IsNot) and not is_singleton(other)
                for operator, other in zip(operators, compared, strict=True)
            ):
                raise OutsideLanguage("is, except with None, True or False")
            case ast.Name(id=name) if name not in bound:
                raise OutsideLanguage(
                    f"the function {name} as a value" if self._is_builtin(name) else f"the name {name}"
                )
            case ast.Name():
                pass
            case ast.BinOp(left=left, op=ast.Mod(), right=right) if _may_format(left, right):
                raise OutsideLanguage("a % that may turn a value into text")
            case _ if isinstance(node, _COMPREHENSIONS):
                self._comprehension(node, bound)
            case _ if isinstance(node, _PLAIN_NODES):
                for child in ast.iter_child_nodes(node):
                    self.visit(child, bound)
            case _ if not isinstance(node, _GRAMMAR_NODES):
                raise OutsideLanguage(described(node))

    def _call(self, node: ast.Call, bound: frozenset[str]) -> None:
        match node.func:
            case ast.Name(id=name) if self._is_program_function(name, bound):
                self.entry_calls += 1
                self.call = node
                if any(keyword.arg is None for keyword in node.keywords):
                    raise OutsideLanguage(f"** in the arguments of {self.entry_point or 'the call'}")
            case ast.Attribute(value=receiver, attr=method) if method in PURE_METHODS:
                if not self._is_function(receiver, bound):
                    self.visit(receiver, bound)
            case function:
                if not self._is_function(function, bound):
                    self.visit(function, bound)
        passed = [each for each in _functions_taken(node) if self._is_function(each, bound)]
        for argument in (*node.args, *[keyword.value for keyword in node.keywords]):
            if argument not in passed:
                self.visit(argument, bound)

    def _is_builtin(self, name: str) -> bool:
        return name in PURE_BUILTINS and name != self.entry_point

    def _is_function(self, node: ast.expr, bound: frozenset[str]) -> bool:
        """Whether a node names builtins: one, or in `isinstance` several. They are hashed by their address: nothing
        else may be done with them than to call them.
        """
        match node:
            case ast.Tuple(elts=kinds):
                return bool(kinds) and all(self._is_function(kind, bound) for kind in kinds)
            case ast.Name(id=name):
                return name not in bound and self._is_builtin(name)
            case _:
                return False

    def _is_program_function(self, name: str, bound: frozenset[str]) -> bool:
        if name in bound or name.startswith("__"):
            return False
        return name == self.entry_point or (self.any_function and name not in PURE_BUILTINS)

    def _comprehension(self, node: ast.AST, bound: frozenset[str]) -> None:
        once = None  # calls up to the first iterable, which alone is evaluated once
        for generator in node.generators:  # type: ignore[attr-defined]
            self.visit(generator.iter, bound)
            once = self.entry_calls if once is None else once
            bound = bound | self._targets(generator.target)
            for condition in generator.ifs:
                self.visit(condition, bound)
        parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)  # type: ignore[attr-defined]
        for part in parts:
            self.visit(part, bound)
        if self.entry_calls != once:
            raise OutsideLanguage(f"calls {self.entry_point or 'the program'} inside a comprehension")

    def _targets(self, target: ast.expr) -> frozenset[str]:
        nodes = list(ast.walk(target))
        if not all(
            isinstance(node, ast.Name | ast.Tuple | ast.List | ast.Starred | ast.expr_context) for node in nodes
        ):
            raise OutsideLanguage("a comprehension over something else than names")
        names = frozenset(node.id for node in nodes if isinstance(node, ast.Name))
        if taken := names & (PURE_BUILTINS | HELPERS | {self.entry_point, RETURNED}):
            raise OutsideLanguage(f"a comprehension that rebinds {min(taken)}")
        return names


def _functions_taken(call: ast.Call) -> list[ast.expr]:
    by_name = [keyword.value for keyword in call.keywords if keyword.arg == "key"]
    match call:
        case ast.Call(func=ast.Name(id="map" | "filter"), args=[first, *_]):
            return [first, *by_name]
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
            return [kinds]
        case _:
            return by_name


def _may_format(left: ast.expr, right: ast.expr) -> bool:
    is_number = isinstance(left, ast.Constant) and isinstance(left.value, int | float | complex)
    return not is_number and any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(right))


def described(node: ast.AST) -> str:
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


_OPERATORS: dict[type, str] = {ast.Mult: "_times_", ast.Pow: "_power_", ast.LShift: "_shift_"}


@lru_cache(maxsize=4_096)
def bounded(expression: str) -> str:
    """The expression, which must be in the language, with `HELPERS` around all that may take long or grow: so it is
    computed within the bounds of `sandbox.inside.expressions`.

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
