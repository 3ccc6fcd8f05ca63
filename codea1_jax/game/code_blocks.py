"""The fenced code blocks of a response, as CommonMark has them. Pure; nothing is executed.

What is thought aloud before the answer, and what follows the end of the turn, is not part of the answer.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from sandbox.syntax import parse_module

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
_FENCE = re.compile(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)
_DEPTH = 4  # of blocks in blocks


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


def answer_in(response: str) -> str:
    """The response without what was thought before it, to the end of its turn."""
    response = response[:MAX_RESPONSE]
    if "think" in response:
        response = _THINKING.sub("", response)
    end = _TURN_END.search(response)
    return response[: end.start()] if end else response


def code_blocks(text: str, *, indented: bool = False) -> list[CodeBlock]:
    """The fenced blocks in order; those in lists and quotations without the indentation and marks of these.

    A block that holds fences and is not Python, because its own fence is not closed or it quotes a whole answer, is
    given as the text before the first of them and the blocks that they begin. `indented` reads fences however far they
    are indented, which CommonMark does not.
    """
    return _code_blocks(text, indented, _DEPTH)


def _code_blocks(text: str, indented: bool, depth: int) -> list[CodeBlock]:
    if "```" not in text and "~~~" not in text:
        return []
    tokens: list[Token] = []
    parser = _parser(indented)
    parser.block.parse(re.sub("\r\n?", "\n", text), parser, {}, tokens)
    blocks = []
    for token in tokens:
        if token.type == "fence":
            block = CodeBlock(token.info, token.content)
            blocks += split_at_fences(block, indented, depth - 1) if _holds_fences(block) else [block]
    return blocks


def split_at_fences(block: CodeBlock, indented: bool = False, depth: int = _DEPTH) -> list[CodeBlock]:
    """A block's text before the first line that begins with a fence, and the blocks behind it."""
    fence = _FENCE.search(block.text)
    if fence is None or not depth:
        return [block]
    before = CodeBlock(block.info, block.text[: fence.start()])
    return [before, *_code_blocks(block.text[fence.start() :], indented, depth)]


def _holds_fences(block: CodeBlock) -> bool:
    return _FENCE.search(block.text) is not None and parsed(block.text) is None


@cache
def _parser(indented: bool) -> MarkdownIt:
    """Reads blocks alone. HTML is text to it, since a fence in <details> is a fence to those who write it."""
    unused = ["reference", "html_block", *(["code"] if indented else [])]
    return MarkdownIt("commonmark").disable(unused)


def parsed(source: str) -> list[ast.stmt] | None:
    """The statements of a source; None where it does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # invalid escapes in model text
            return parse_module(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # null bytes; nesting beyond the parser's depth
        return None
