"""What is read from a model's response: its fenced blocks, and the program in them. Nothing is executed.

Fences are CommonMark's, of backticks or tildes, in lists and quotations, except that any indentation may stand before
them. What is thought aloud before the answer, and what follows the end of the turn, is not part of the answer. All of
it takes time in proportion to the length, whatever the text.
"""

from __future__ import annotations

import ast
import builtins
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandbox.syntax import parsed

MAX_RESPONSE = 100_000  # characters that are read of a response: 4,096 tokens are some 16,000

_THINKING = re.compile(
    r"^[ \t]*<(think|thinking)>.*?(?:</\1>|\Z)"
    # Where the prompt has opened it, the response only closes it.
    r"|\A(?:(?!^[ \t]*<think).)*?^[ \t]*</think(?:ing)?>[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
# What models end a turn with, where a server or a model writes it out. In the middle of a line it is text.
_TURN_END = re.compile(r"(?:<\|(?:im_end|endoftext|end_of_text|eot_id|end)\|>|<end_of_turn>|</s>)[ \t]*(?=\n|\Z|<)")
_PYTHON = re.compile(r"\W*py(?:thon)?[0-9.]*\b", re.IGNORECASE)
# An opening fence, behind the marks of quotations and lists. Backticks in its info string make it a span of code.
_OPENING = re.compile(r"((?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*)(`{3,}(?=[^`]*$)|~{3,})(.*)")
_FENCE = re.compile(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)
_DEPTH = 4  # of blocks in blocks
_MARK = re.compile(r"(?:`{3,}|~{3,})(?:[ \t]*py(?:thon)?[0-9.]*\b)?", re.IGNORECASE)
_MARKS = 8  # fences, the last ones, between which a program is looked for where no block is one
_PARSED_SHARE = 10  # and that many times the answer's length is parsed for it
_BUILTINS = frozenset(dir(builtins))
PAPER_BLOCK = re.compile(r"```python(.*?)```", re.DOTALL)  # as the original finds blocks
_SCRIPT_ENDS = ("\n```", "\nif __name__", "\ndef main(", "\nprint(")  # where BigCodeBench stops a response


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block. info: what stands behind its opening fence, the language first."""

    info: str
    text: str

    @property
    def is_python(self) -> bool:
        """Whether it is labelled as Python, however that is spelled."""
        return bool(_PYTHON.match(self.info))

    @property
    def may_be_python(self) -> bool:
        """Whether it has no other label."""
        return self.is_python or not self.info.strip()


def program_in(response: str, entry_point: str | None = None) -> str:
    """The program in a response that was asked for `entry_point`, or for any function or class.

    The last block that parses and defines it, with the blocks that define what it lacks. Where no block does: what
    stands between any two fences and does, else as `last_program`.
    """
    answer = answer_in(response)
    blocks = code_blocks(answer)
    if len(blocks) == 1 and entry_point and re.search(rf"(?m)^def {re.escape(entry_point)}\b", blocks[0].text):
        return blocks[0].text  # as nearly every answer is: there is nothing to choose, so nothing is parsed
    for each in (blocks, *_other_readings(answer)):
        program = _joined([b for b in each if b.may_be_python], entry_point) or _joined(each, entry_point)
        if program is not None:
            return program
    return _last(blocks, answer)


def last_program(response: str) -> str:
    """A response's program that stands alone: the last block that parses, else the last block, else the answer."""
    answer = answer_in(response)
    return _last(code_blocks(answer), answer)


def script_in(response: str) -> str:
    """The program in a response that continues a block of code, to where BigCodeBench stops it."""
    ends = [response.find(end) for end in _SCRIPT_ENDS]
    return response[: min((end for end in ends if end >= 0), default=None)]


def paper_program(response: str) -> str:
    """The first ```python block that is closed before another opens, else the whole response, as in the original."""
    text, closed, behind = response[:MAX_RESPONSE].partition("```python")[2].partition("```")
    return text if closed and not behind.startswith("python") else response


def answer_in(response: str) -> str:
    """The response without what was thought before it, to the end of its turn."""
    response = response[:MAX_RESPONSE]
    if "think" in response:
        response = _THINKING.sub("", response)
    end = _TURN_END.search(response)
    return response[: end.start()] if end else response


def code_blocks(text: str, depth: int = _DEPTH) -> list[CodeBlock]:
    """The fenced blocks in order; those in lists and quotations without the indentation and marks of these.

    A block that holds fences and is not Python, because its own fence is not closed or it quotes a whole answer, is
    given as the text before the first of them and the blocks that they begin, down to this depth.
    """
    if "```" not in text and "~~~" not in text:
        return []
    blocks: list[CodeBlock] = []
    lines = re.sub("\r\n?", "\n", text).split("\n")
    at = 0
    while at < len(lines):
        opening = _OPENING.match(lines[at])
        at += 1
        if opening:
            content, at = _content(lines, at, opening[1], opening[2])
            block = CodeBlock(opening[3], content)
            holds_fences = _FENCE.search(content) and parsed(content) is None
            blocks += _split_at_fences(block, depth - 1) if holds_fences else [block]
    return blocks


def _content(lines: Sequence[str], at: int, before: str, fence: str) -> tuple[str, int]:
    """A block's text from its first line, and the line behind it. It ends with its quotation, or with the text."""
    *quoted, own = before.split(">")
    quotation = re.compile(f"(?:[ \t]*> ?){{{len(quoted)}}}")
    width = len((own.removeprefix(" ") if quoted else own).expandtabs(4))
    if own.strip() and not quoted and at < len(lines) and not lines[at].startswith((" ", "\t")):
        width = 0  # behind a list's mark, and yet not indented as a list's text
    content: list[str] = []
    for following in range(at, len(lines)):
        marks = quotation.match(lines[following])
        text = _unindented(lines[following][marks.end() :], width) if marks else ""
        closing = text.strip(" \t")
        closes = len(closing) >= len(fence) and not closing.strip(fence[0]) and not text.startswith("    ")
        if closes or marks is None:
            return "".join(f"{each}\n" for each in content), following + closes
        content.append(text)
    return "\n".join(content), len(lines)


def _unindented(line: str, width: int) -> str:
    rest = line.lstrip(" \t")
    indentation = line[: len(line) - len(rest)]
    return line if not width else indentation.expandtabs(4)[width:] + rest


def _split_at_fences(block: CodeBlock, depth: int = _DEPTH) -> list[CodeBlock]:
    fence = _FENCE.search(block.text)
    if fence is None or not depth:
        return [block]
    before = CodeBlock(block.info, block.text[: fence.start()])
    return [before, *code_blocks(block.text[fence.start() :], depth)]


def _last(blocks: Sequence[CodeBlock], answer: str) -> str:
    """The last block that parses, else the last one with a text: labelled as Python, else without a label, else any."""
    if not blocks:
        return answer
    written = [b for b in blocks if b.text.strip()]
    candidates = [b for b in written if parsed(b.text) is not None] or written
    ranked = [b for b in candidates if b.is_python] or [b for b in candidates if b.may_be_python] or candidates
    return ranked[-1].text if ranked else ""


def _other_readings(answer: str) -> Iterator[list[CodeBlock]]:
    """Looser than CommonMark's, for an answer in which no block is the program."""
    if "```" in answer or "~~~" in answer:
        yield [CodeBlock("", answer)]  # the fences may stand in a string of it
        yield _split_at_fences(CodeBlock("", answer))  # the program may stand before the first fence
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


def _joined(blocks: Sequence[CodeBlock], entry_point: str | None) -> str | None:
    """The last block that defines the entry point, with the blocks that it needs in their order; None if none does."""
    trees = [parsed(block.text) for block in blocks]
    defining = [i for i, tree in enumerate(trees) if tree is not None and _defines(tree, entry_point)]
    if not defining:
        return None
    bound = [set() if tree is None else _bound(tree) for tree in trees]
    if entry_point is None:  # helpers may stand behind the function that uses them
        used = set().union(*(_lacking(trees[i] or []) for i in defining))
        defining = [i for i in defining if not bound[i] & used] or defining
    main = defining[-1]
    binding: dict[str, int] = {}  # by each name, the nearest block before it that binds it, else the first behind it
    for i in (*range(len(blocks) - 1, main, -1), *range(main)):
        binding |= dict.fromkeys(bound[i], i)
    needed, unread, known = {main}, [main], set(bound[main])
    while unread:
        for name in sorted(_lacking(trees[unread.pop()] or [])):
            if name not in known and name in binding:
                needed.add(binding[name])
                unread.append(binding[name])
                known |= bound[binding[name]]
    return "\n".join(blocks[i].text for i in sorted(needed))


def _defines(tree: Sequence[ast.stmt], entry_point: str | None) -> bool:
    """Whether the statements give the entry point a meaning: not a signature alone, as a quoted question has it.

    None: whether they define any function or class.
    """
    for statement in tree:
        match statement:
            case ast.FunctionDef(name=name, body=body) | ast.AsyncFunctionDef(name=name, body=body):
                if name == (entry_point or name) and not all(map(_does_nothing, body)):
                    return True
            case ast.ClassDef() if entry_point is None:
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
    bound = set()
    for node in (node for statement in tree for node in ast.walk(statement)):
        match node:
            case ast.arg(arg=name) | ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
                bound.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.alias() | ast.Name(ctx=ast.Store()):
                bound |= _bound([node])
    return _loaded(tree) - bound - _BUILTINS
