"""From a response to the program in it. Pure; nothing is executed."""

from __future__ import annotations

import ast
import builtins
import re
import textwrap
from collections.abc import Iterator, Sequence

from codea1_jax.config import Reading
from codea1_jax.game.code_blocks import MAX_RESPONSE, CodeBlock, answer_in, code_blocks, parsed, split_at_fences

PAPER_BLOCK = re.compile(r"```python(.*?)```", re.DOTALL)  # as the original finds blocks
SCRIPT_ENDS = ("\n```", "\nif __name__", "\ndef main(", "\nprint(")  # where BigCodeBench stops a response

_MARK = re.compile(r"(?:`{3,}|~{3,})(?:[ \t]*py(?:thon)?[0-9.]*\b)?", re.IGNORECASE)
_MARKS = 8  # fences, the last ones, between which a program is looked for where no block is one
_PARSED_SHARE = 10  # and that many times the answer's length is parsed for it
_BUILTINS = frozenset(dir(builtins))


def extract_program(response: str, entry_point: str, reading: Reading = "commonmark") -> str:
    """The program in a response that was asked for `entry_point`.

    paper: the first ```python block, else the whole response.
    commonmark: the last block that parses and defines the entry point, with the blocks that define what it lacks.
    Where no block does: what stands between any two fences and does, else the last block, else the whole response.
    """
    if reading == "paper":
        found = PAPER_BLOCK.search(response[:MAX_RESPONSE])
        return found[1] if found else response
    answer = answer_in(response)
    blocks = code_blocks(answer)
    if len(blocks) == 1 and re.search(rf"^def {re.escape(entry_point)}\b", blocks[0].text, re.MULTILINE):
        return blocks[0].text  # as nearly every answer is: there is nothing to choose, so nothing is parsed
    for each in (blocks, *_other_readings(answer)):
        program = _joined([b for b in each if b.may_be_python], entry_point) or _joined(each, entry_point)
        if program is not None:
            return program
    return _last(blocks) if blocks else answer


def last_program(response: str, reading: Reading = "commonmark") -> str:
    """The program in a response that was asked for one that stands alone.

    paper: as above. commonmark: the last block that parses, else the last block, else the whole response.
    """
    if reading == "paper":
        return extract_program(response, "", reading)
    answer = answer_in(response)
    blocks = code_blocks(answer)
    return _last([b for b in blocks if parsed(b.text) is not None] or blocks) if blocks else answer


def extract_script(response: str) -> str:
    """The program in a response that continues a block of code, to where BigCodeBench stops it."""
    ends = [response.find(end) for end in SCRIPT_ENDS]
    return response[: min((end for end in ends if end >= 0), default=None)]


def _last(blocks: Sequence[CodeBlock]) -> str:
    """The last block with a text, those that are labelled as Python first, and then those without a label."""
    written = [block for block in blocks if block.text.strip()]
    ranked = [b for b in written if b.is_python] or [b for b in written if b.may_be_python] or written
    return ranked[-1].text if ranked else ""


def _other_readings(answer: str) -> Iterator[list[CodeBlock]]:
    """Looser than CommonMark's, for an answer in which no block is the program."""
    if "```" in answer or "~~~" in answer:
        yield code_blocks(answer, indented=True)
        yield split_at_fences(CodeBlock("", answer))  # the program may stand before the first fence
        yield from ([block] for block in _between_fences(answer))


def _between_fences(answer: str) -> Iterator[CodeBlock]:
    """What stands between two fences, wherever in a line they are, or behind the last one."""
    marks = list(_MARK.finditer(answer))[-_MARKS:]
    left = _PARSED_SHARE * len(answer)
    for i in reversed(range(len(marks))):
        for end in (*(mark.start() for mark in marks[i + 1 :]), len(answer)):
            left -= end - marks[i].end()
            if left < 0:
                return
            yield CodeBlock("", textwrap.dedent(answer[marks[i].end() : end].lstrip(" \t")))


def _joined(blocks: Sequence[CodeBlock], entry_point: str) -> str | None:
    """The last block that defines the entry point, with the blocks that it needs in their order; None if none does."""
    trees = [parsed(block.text) for block in blocks]
    defining = [i for i, tree in enumerate(trees) if tree is not None and _defines(tree, entry_point)]
    if not defining:
        return None
    main = defining[-1]
    bound = [set() if tree is None else _bound(tree) for tree in trees]
    order = [*reversed(range(main)), *range(main + 1, len(blocks))]  # the nearest before it, else the first behind it
    needed, unread = {main}, [main]
    while unread:
        lacking = _lacking(trees[unread.pop()] or [])
        for name in lacking - set().union(*(bound[i] for i in needed)):
            found = next((i for i in order if name in bound[i]), None)
            if found is not None and found not in needed:
                needed.add(found)
                unread.append(found)
    return "\n".join(blocks[i].text for i in sorted(needed))


def _defines(tree: Sequence[ast.stmt], entry_point: str) -> bool:
    """Whether the statements give the entry point a meaning: not a signature alone, as a quoted question has it."""
    for statement in tree:
        match statement:
            case ast.FunctionDef(name=name, body=body) | ast.AsyncFunctionDef(name=name, body=body):
                if name == entry_point and not all(map(_does_nothing, body)):
                    return True
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                if entry_point in _bound([statement]) and entry_point not in _loaded([value]):
                    return True
            case _:
                if entry_point in _bound([statement]):
                    return True
    return False


def _does_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _bound(tree: Sequence[ast.AST]) -> set[str]:
    """The names that the statements bind where they stand."""
    names = set()
    nodes = list(tree)
    while nodes:
        match nodes.pop():
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=name, asname=alias):
                names.add(alias or name.partition(".")[0])
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                pass
            case node:
                nodes += ast.iter_child_nodes(node)
    return names


def _loaded(tree: Sequence[ast.AST]) -> set[str]:
    walked = (node for each in tree for node in ast.walk(each))
    return {node.id for node in walked if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _lacking(tree: Sequence[ast.stmt]) -> set[str]:
    """The names that are used and nowhere bound, except builtins."""
    bound = set()
    for node in (node for statement in tree for node in ast.walk(statement)):
        match node:
            case ast.arg(arg=name) | ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
                bound.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.alias() | ast.Name(ctx=ast.Store()):
                bound |= _bound([node])
    return _loaded(tree) - bound - _BUILTINS
