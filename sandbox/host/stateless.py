"""Whether a program can carry anything from one call to the next, by its syntax alone.

Each call of a program is answered as if it were the only one: no test may change what another is worth. A program that
keeps nothing may answer all its calls in one process, which is much cheaper than a process for each. Whatever is not
known to be harmless counts as keeping state: caches, mutable defaults, globals that are not constants, attributes that
are set, modules that hold state, and every way to reach one of these under another name.

Python keeps caches of its own, by equality: `typing` gives the first of several equal types, and `re` a pattern that
holds the first of several equal texts. So `typing`'s names may stand in annotations alone, which nothing can read, and
identity may be asked of None, True and False alone: there is no other way to tell equal texts apart.
"""

import ast
import importlib
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from functools import cache, lru_cache

from sandbox.grammar import is_singleton
from sandbox.syntax import parse_module

_MAX_PROGRAM = 20_000  # characters; longer ones are not read: parsing takes a hundred times their memory


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Modules whose public names keep nothing that another call could see. (`re` keeps compiled patterns.)
_PURE_MODULES = _names("bisect collections heapq itertools math re")
# Only these names of other modules: operator.attrgetter, string.Formatter, typing.get_type_hints and more reach
# everything.
_PURE_NAMES = {
    "__future__": _names("annotations"),
    "functools": _names("cache cmp_to_key lru_cache partial reduce"),
    "operator": _names("add and_ eq floordiv ge gt itemgetter le lt mod mul ne neg or_ sub truediv xor"),
    "string": _names(
        "ascii_letters ascii_lowercase ascii_uppercase digits hexdigits octdigits printable punctuation whitespace"
    ),
    "typing": _names(
        "Any Callable Counter DefaultDict Deque Dict FrozenSet Generator Iterable Iterator List Literal Mapping "
        "Optional Sequence Set Tuple Type Union"
    ),
}
_IMPURE_NAMES = _names(
    "breakpoint compile delattr dir eval exec getattr globals hash help id input locals memoryview object open setattr "
    "super type vars"
)
# The most frequent nodes, none of which `_is_harmless` would refuse.
_HARMLESS = {
    *(ast.Load, ast.Store, ast.Constant, ast.Call, ast.Assign, ast.AugAssign, ast.Return, ast.Expr, ast.If, ast.For),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Mod, ast.Subscript, ast.List, ast.Tuple, ast.arguments, ast.In),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not),
}
_RELIED_ON = {"float", "__name__"}  # names that must keep their meaning

# Attributes of anything but modules: of values, not of frames, classes or functions. `format` reads any attribute.
_VALUES = (
    *(int, float, complex, str, bytes, bytearray, range, list, tuple, set, frozenset, dict),
    *(Counter, OrderedDict, defaultdict, deque, re.Pattern, re.Match),
)
_ATTRIBUTES = frozenset(name for kind in _VALUES for name in dir(kind) if not name.startswith("_")) - {
    "format",
    "format_map",
} | _names("args cache_clear cache_info close send")
_READS_ATTRIBUTES = re.compile(r"\{[^{}:!]*[.\[]")


def keeps_no_state(program: str) -> bool:
    return len(program) <= _MAX_PROGRAM and _keeps_no_state(program)


@lru_cache(maxsize=2_048)
def _keeps_no_state(program: str) -> bool:
    try:
        module = parse_module(program)
        nodes = list(ast.walk(module))
        modules = {
            alias.asname or alias.name: alias.name
            for node in nodes
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        return (
            all(map(_is_harmless_at_the_top, module.body))
            and all(type(node) in _HARMLESS or _is_harmless(node, modules) for node in nodes)
            and _uses_types_in_annotations(nodes, modules)
        )
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _is_harmless_at_the_top(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Expr():
            return True  # looked at with all other nodes
        case ast.FunctionDef(decorator_list=decorators, args=arguments):
            return not decorators and _has_immutable_defaults(arguments)
        case ast.Assign(targets=[ast.Name()], value=ast.Lambda(args=arguments)):
            return _has_immutable_defaults(arguments)
        case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(target=ast.Name(), value=value):
            return value is None or _is_immutable(value)
        case ast.If(test=ast.Compare(ast.Name("__name__"), [ast.Eq()], [ast.Constant("__main__")]), orelse=[]):
            return True  # never executed
        case _:
            return False


def _has_immutable_defaults(arguments: ast.arguments) -> bool:
    return all(_is_immutable(default) for default in (*arguments.defaults, *arguments.kw_defaults) if default)


def _is_immutable(value: ast.expr) -> bool:
    match value:
        case ast.Constant():
            return True
        case ast.Tuple(elts=items):
            return all(map(_is_immutable, items))
        case ast.UnaryOp(operand=operand):
            return _is_immutable(operand)
        case ast.BinOp(left=left, right=right):
            return _is_immutable(left) and _is_immutable(right)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant()], keywords=[]):  # float("inf")
            return True
        case _:
            return False


def _is_harmless(node: ast.AST, modules: dict[str, str]) -> bool:  # noqa: PLR0911
    """Whether a node, wherever it is in a program that imports these `modules` by name, keeps nothing."""
    match node:
        case ast.Name(id=name, ctx=context):
            if name in _RELIED_ON:
                return isinstance(context, ast.Load)  # else it is no longer the builtin
            return name not in _IMPURE_NAMES and not name.startswith("__")
        case ast.Attribute(ctx=ast.Load()):
            return _is_readable(node, modules)
        case ast.Attribute() | ast.Global() | ast.ClassDef() | ast.AsyncFunctionDef() | ast.NamedExpr():
            return False
        case ast.Match():  # whose patterns read attributes and bind names
            return False
        case ast.Try() | ast.TryStar():  # a generator that is never finished runs its `finally` in another call's time
            return not any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(node))
        case ast.FunctionDef(name=name) | ast.arg(arg=name):
            return name not in _RELIED_ON
        case ast.Compare(ops=operators, comparators=compared):
            return all(
                is_singleton(other) or not isinstance(operator, ast.Is | ast.IsNot)
                for operator, other in zip(operators, compared, strict=True)
            )
        case ast.Import(names=names):
            return all(alias.name in _PURE_MODULES | _PURE_NAMES.keys() and _keeps_builtins(alias) for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            public = _public(module) if module and not level else frozenset()
            return all(alias.name in public and _keeps_builtins(alias) for alias in names)
        case _:
            return True


def _is_readable(node: ast.Attribute, modules: dict[str, str]) -> bool:
    match node.value:
        case ast.Name(id=name) if name in modules:
            return node.attr in _public(modules[name])
        case ast.Constant(value=str() as text) if node.attr == "format":
            return not _READS_ATTRIBUTES.search(text)
        case _:
            return node.attr in _ATTRIBUTES


@cache
def _public(module: str) -> frozenset[str]:
    if module not in _PURE_MODULES:
        return _PURE_NAMES.get(module, frozenset())
    loaded = importlib.import_module(module)
    return frozenset(getattr(loaded, "__all__", None) or (name for name in dir(loaded) if not name.startswith("_")))


def _keeps_builtins(alias: ast.alias) -> bool:
    return (alias.asname or alias.name) not in _RELIED_ON


def _uses_types_in_annotations(nodes: list[ast.AST], modules: dict[str, str]) -> bool:
    types = {name for name, module in modules.items() if module == "typing"}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "typing":
            types |= {alias.asname or alias.name for alias in node.names}
    uses = {id(node) for node in nodes if isinstance(node, ast.Name) and node.id in types} if types else set()
    return not uses or uses <= {id(name) for annotation in _annotations(nodes) for name in ast.walk(annotation)}


def _annotations(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    for node in nodes:
        annotation = getattr(node, "returns" if isinstance(node, ast.FunctionDef) else "annotation", None)
        if annotation is not None:
            yield annotation
