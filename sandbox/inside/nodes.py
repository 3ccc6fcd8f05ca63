"""Inside the jail: calls with linked lists and binary trees, which tests write as LeetCode does.

A tree is the list of its values in level order, with None for a missing child and nothing behind the last value; a
linked list is the same of nodes with one child. Nothing else stands for one, so that no test has two spellings.

Nodes are made by what the program calls `ListNode` or `TreeNode`, a class from here or its own, and read by attributes
alone, which its code may answer: they can lie about nothing but the program's own value, as any value can.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, repeat
from typing import Any

MOST = 200_000  # values of one list or tree, missing children included: a cycle has no last one

CHILDREN = {"ListNode": ("next",), "TreeNode": ("left", "right")}

Kind = str | list["Kind"] | None
"""Of a value: the name of a class of nodes, a list of a kind, or anything else."""
Signature = tuple[Mapping[str, Kind], Kind]
"""The kinds of a function's parameters, in order, and of what it returns."""

_PLAIN: Signature = {}, None


class ListNode:
    def __init__(self, val=0, next=None):
        self.val = val
        self.next = next


class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val = val
        self.left = left
        self.right = right


def drive(names: dict[str, Any], name: str, signature: Signature) -> None:
    """Put a function of plain data in the place of a program's function; nothing where it has none.

    While that runs the name is its own, by which it may call itself.
    """
    function = names.get(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        names[name] = function
        try:
            return _called(names, function, signature, args, kwargs)
        finally:
            names[name] = call

    if function is not None:
        call.__wrapped__ = function  # type: ignore[attr-defined]
        names[name] = call


def runner(names: Mapping[str, Any], name: str, signatures: Mapping[str, Signature]) -> Callable[..., Any]:
    """A function of plain data that makes an object of the class, calls its methods and returns the last result."""

    def run_calls(made: Iterable[Any], calls: Iterable[tuple[str, Iterable[Any]]]) -> Any:
        value = None
        thing = _called(names, names[name], signatures.get("__init__", _PLAIN), made)
        for method, arguments in calls:
            value = _called(names, getattr(thing, method), signatures.get(method, _PLAIN), arguments)
        return value

    return run_calls


def _called(
    names: Mapping[str, Any], function: Any, signature: Signature, args: Iterable[Any], kwargs: Mapping[str, Any] = {}
) -> Any:
    parameters, result = signature
    kinds = chain(parameters.values(), repeat(None))
    by_position = [_made(value, kind, names) for value, kind in zip(args, kinds, strict=False)]
    by_name = {name: _made(value, parameters.get(name), names) for name, value in kwargs.items()}
    return _read(function(*by_position, **by_name), result)


def _made(value: Any, kind: Kind, names: Mapping[str, Any]) -> Any:
    if kind is None:
        return value
    if type(value) is not list:
        raise TypeError(f"lists and trees are written as lists, not as {type(value).__name__}")
    if isinstance(kind, list):
        return [_made(each, kind[0], names) for each in value]
    if not value:
        return None
    if value[0] is None or value[-1] is None:
        raise ValueError("a list of values begins or ends with None")
    first, *others = value
    make, children = names[kind], CHILDREN[kind]
    root = make(first)
    parents = deque([root])
    for i, each in enumerate(others):
        if not parents:
            raise ValueError("a value without a parent")
        if each is not None:
            child = make(each)
            setattr(parents[0], children[i % len(children)], child)
            parents.append(child)
        if (i + 1) % len(children) == 0:
            parents.popleft()
    return root


def _read(value: Any, kind: Kind) -> Any:
    """What the program returned, as plain data. Raises ValueError for what has no such spelling, and whatever the
    program's own code raises.
    """
    if kind is None:
        return value
    if isinstance(kind, list):
        if type(value) is not list:
            raise TypeError(f"returned no list but a value of type {type(value).__name__}")
        return [_read(each, kind[0]) for each in value]
    values: list[Any] = []
    nodes = deque([value])
    while nodes:
        node = nodes.popleft()
        values.append(None if node is None else _value_of(node))
        nodes.extend(() if node is None else [getattr(node, child) for child in CHILDREN[kind]])
        if len(values) > MOST:
            raise ValueError(f"a cycle, or more than {MOST} nodes")
    while values and values[-1] is None:
        values.pop()
    return values


def _value_of(node: Any) -> Any:
    value = getattr(node, "val" if hasattr(node, "val") else "value" if hasattr(node, "value") else "data")
    if value is None:
        raise ValueError("a node without a value")
    return value
