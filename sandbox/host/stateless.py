"""Whether a program can carry anything from one call to the next, by its syntax alone.

Each call of a program is answered as if it were the only one: no test may change what another is worth. A program that
keeps nothing may answer all its calls in one process, which is much cheaper than a process for each. Whatever is not
known to be harmless counts as keeping state: caches, mutable defaults, globals, attributes that are set, modules that
hold state, and every way to reach one of these under another name.

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
_READING_METHODS = _names("count get index items keys values")
_READING_FUNCTIONS = _names("all any dict enumerate frozenset len list max min reversed set sorted sum tuple zip")
_RELIED_ON = _READING_FUNCTIONS | {"float", "__name__"}  # names that must keep their meaning

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
    """Whether every call of the program's functions is sure to find what the first one found."""
    return len(program) <= _MAX_PROGRAM and _keeps_no_state(program)


@lru_cache(maxsize=2_048)
def _keeps_no_state(program: str) -> bool:
    try:
        module = parse_module(program)
        return _Reading(module).is_harmless()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


# The kinds of nodes that any of the rules below is about, names apart: looking at all would take twice as long.
_JUDGED = frozenset(
    {
        ast.Compare,
        *(ast.Global, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Match, ast.Try, ast.TryStar),
        *(ast.Import, ast.ImportFrom, ast.alias, ast.arg, ast.NamedExpr, ast.Attribute),
    }
)
_READERS = frozenset({ast.Attribute, ast.Subscript, ast.Compare, ast.Call, ast.For, ast.comprehension})


class _Reading:
    """A program, the modules that it imports by name, and its tables: containers of constants, which are only read."""

    def __init__(self, module: ast.Module) -> None:
        self._module = module
        nodes = _nodes(module)
        self._names = [node for node in nodes if isinstance(node, ast.Name)]
        self._judged = [node for node in nodes if type(node) in _JUDGED]
        self._readers = [node for node in nodes if type(node) in _READERS]
        self._modules = {
            alias.asname or alias.name: alias.name
            for node in self._judged
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        self._types = {
            alias.asname or alias.name
            for node in self._judged
            if isinstance(node, ast.ImportFrom) and node.module == "typing"
            for alias in node.names
        } | {name for name, module in self._modules.items() if module == "typing"}
        self._tables = {
            statement.targets[0].id
            for statement in module.body
            if isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and _is_table(statement.value)
        }

    def is_harmless(self) -> bool:
        """Whether nothing in it can keep state."""
        return (
            all(map(_is_harmless_at_the_top, self._module.body))
            and all(_is_harmless_name(*use) for use in {(name.id, type(name.ctx) is ast.Load) for name in self._names})
            and all(map(_is_harmless, self._judged))
            and all(self._is_readable(node) for node in self._judged if isinstance(node, ast.Attribute))
            and self._uses_names_as_intended()
            and self._uses_types_in_annotations()
        )

    def _is_readable(self, node: ast.Attribute) -> bool:
        """Whether an attribute is a part of a module's interface or of a value's."""
        match node.value:
            case ast.Name(id=name) if name in self._modules:
                return node.attr in _public(self._modules[name])
            case ast.Constant(value=str() as text) if node.attr == "format":
                return not _READS_ATTRIBUTES.search(text)
            case _:
                return node.attr in _ATTRIBUTES

    def _uses_names_as_intended(self) -> bool:
        """Whether modules and tables are used in place only, never passed on under another name."""
        reserved = self._tables | set(self._modules)
        uses = [name for name in self._names if name.id in reserved and not isinstance(name.ctx, ast.Store)]
        intended = {id(name) for node in self._readers for name in self._read_by(node)} if uses else set()
        return all(id(name) in intended for name in uses)

    def _uses_types_in_annotations(self) -> bool:
        uses = {id(name) for name in self._names if name.id in self._types}
        return not uses or uses <= {id(name) for annotation in self._annotations() for name in ast.walk(annotation)}

    def _annotations(self) -> Iterator[ast.expr]:
        for node in ast.walk(self._module):
            match node:
                case ast.FunctionDef(returns=ast.expr() as annotation):
                    yield annotation
                case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
                    yield annotation

    def _read_by(self, node: ast.AST) -> Iterator[ast.AST]:
        """The names that a node does nothing to but read from."""
        match node:
            case ast.Attribute(value=ast.Name(id=name) as value, attr=attribute):
                if name in self._modules or attribute in _READING_METHODS:
                    yield value
            case ast.Subscript(value=ast.Name() as value, ctx=ast.Load()):
                yield value
            case ast.Compare(comparators=compared):
                yield from compared
            case ast.For(iter=iterable) | ast.comprehension(iter=iterable):
                yield iterable
            case ast.Call(func=ast.Name(id=name), args=[table], keywords=[]) if name in _READING_FUNCTIONS:
                yield table


# Fields that hold texts, numbers, or nodes that no rule is about: operators, and whether a name is read or written.
_PLAIN_FIELDS = _names("arg asname attr ctx id kind level module name op ops type_comment")
_FIELDS = {
    kind: () if kind is ast.Constant else tuple(field for field in kind._fields if field not in _PLAIN_FIELDS)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def _nodes(module: ast.Module) -> list[ast.AST]:
    """A tree's nodes in the order of `ast.walk`, except for operators and contexts: every program is read here."""
    found: list[ast.AST] = [module]
    for node in found:
        for name in _FIELDS[type(node)]:
            value = getattr(node, name)
            if isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


def _is_harmless_at_the_top(statement: ast.stmt) -> bool:  # noqa: PLR0911
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Expr():
            return True  # looked at with all other nodes
        case ast.FunctionDef(decorator_list=decorators, args=arguments):
            return not decorators and _has_immutable_defaults(arguments)
        case ast.Assign(targets=[ast.Name()], value=ast.Lambda(args=arguments)):
            return _has_immutable_defaults(arguments)
        case ast.Assign(targets=[ast.Name()], value=value):
            return _is_immutable(value) or _is_table(value)
        case ast.AnnAssign(target=ast.Name(), value=value):
            return value is None or _is_immutable(value)
        case ast.If(test=ast.Compare(ast.Name("__name__"), [ast.Eq()], [ast.Constant("__main__")]), orelse=[]):
            return True  # never executed
        case _:
            return False


def _has_immutable_defaults(arguments: ast.arguments) -> bool:
    return all(_is_immutable(default) for default in (*arguments.defaults, *arguments.kw_defaults) if default)


def _is_immutable(value: ast.expr) -> bool:
    """Whether the expression is a constant, or a tuple or arithmetic of constants."""
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


def _is_table(value: ast.expr) -> bool:
    match value:
        case ast.List(elts=items) | ast.Set(elts=items):
            return all(map(_is_immutable, items))
        case ast.Dict(keys=keys, values=values):
            return all(key is not None and _is_immutable(key) for key in keys) and all(map(_is_immutable, values))
        case _:
            return False


def _is_harmless_name(name: str, is_read: bool) -> bool:
    if name in _RELIED_ON:
        return is_read  # else it is no longer the builtin
    return name not in _IMPURE_NAMES and not name.startswith("__")


def _is_harmless(node: ast.AST) -> bool:  # noqa: PLR0911
    match node:
        case ast.Global() | ast.ClassDef() | ast.AsyncFunctionDef() | ast.NamedExpr():
            return False
        case ast.Match():  # whose patterns read attributes and bind names
            return False
        case ast.Try() | ast.TryStar():  # a generator that is never finished runs its `finally` in another call's time
            return not any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(node))
        case ast.FunctionDef(name=name) | ast.arg(arg=name) | ast.alias(asname=str() as name) if name in _RELIED_ON:
            return False
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return False
        case ast.Compare(ops=operators, comparators=compared):
            return all(
                is_singleton(other) or not isinstance(operator, ast.Is | ast.IsNot)
                for operator, other in zip(operators, compared, strict=True)
            )
        case ast.Import(names=names):
            return all(alias.name in _PURE_MODULES | _PURE_NAMES.keys() and _keeps_builtins(alias) for alias in names)
        case ast.ImportFrom(module=str() as module, names=names, level=0):
            return all(alias.name in _public(module) and _keeps_builtins(alias) for alias in names)
        case ast.ImportFrom():
            return False
        case _:
            return True


@cache
def _public(module: str) -> frozenset[str]:
    """What a pure module offers by name; of other modules nothing."""
    if module not in _PURE_MODULES:
        return _PURE_NAMES.get(module, frozenset())
    loaded = importlib.import_module(module)
    return frozenset(getattr(loaded, "__all__", None) or (name for name in dir(loaded) if not name.startswith("_")))


def _keeps_builtins(alias: ast.alias) -> bool:
    return (alias.asname or alias.name) not in _RELIED_ON
