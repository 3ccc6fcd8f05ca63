"""From a response to the suite of tests in it. Pure; nothing is executed."""

import ast
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from codea1_jax.config import Reading
from data_pipeline.responses import MAX_RESPONSE, PAPER_BLOCK, answer_in, code_blocks
from sandbox.language import Rejected, SuiteTest, parse_test
from sandbox.syntax import parsed, size_of, stored_names, with_values

MAX_REJECTED = 1_000  # characters kept of a rejected assert: a bound name may stand for much, many times
MAX_TESTS = 1_000  # tests read of one suite, unless the reader asks for fewer
MAX_NODES = 40_000  # syntax nodes read of one suite; bound names count as theirs where used, and as one in each block
_ASSERTS_PER_TEST = 4  # asserts looked at for each test that may be read
_CLOSINGS = (")", "]", "}", "'" * 3, '"' * 3)
_JOINED_LINES = 50  # lines that one statement in brackets may take
_MAX_BROKEN = 2_000  # lines that do not parse, after which nothing is read
_PARSED_SHARE = 20  # a broken suite is parsed in pieces, in all that many times its length


@dataclass(frozen=True)
class RejectedTest:
    """An assert outside the suite language, and why."""

    text: str
    reason: str


@dataclass(frozen=True)
class Suite:
    """The tests in a response, in order, and the asserts that are none; invalid: how many of these count as invalid."""

    tests: tuple[SuiteTest, ...]
    rejected: tuple[RejectedTest, ...]
    invalid: int = 0


@dataclass(frozen=True)
class SuiteRules:
    """What of a suite counts.

    answers: tests state their answers; else every line `CALL` is a test as well, and what a test states is None,
    whatever the response states. most: how many tests are read, so that a long suite costs no more to judge than
    another. junk_counts: every comparison with a call on its left is read as `==`, as in the original, and one outside
    of the suite language counts as invalid. names: what bare names stand for that the suite does not bind.
    """

    answers: bool = True
    most: int = MAX_TESTS
    junk_counts: bool = False
    names: Mapping[str, ast.expr] = field(default_factory=dict, hash=False)


PLAIN_RULES = SuiteRules()

Rewrite = Callable[[Sequence[ast.stmt]], Sequence[ast.stmt]]


def extract_suite(
    response: str,
    entry_point: str,
    reading: Reading = "commonmark",
    rules: SuiteRules = PLAIN_RULES,
    rewrite: Rewrite | None = None,
) -> Suite:
    """Every `assert CALL == EXPR` of the Python blocks joined, else of the response's own assert lines.

    Without a block labelled as Python, those without a label count. paper: all ```python blocks, else the lines that
    begin as a test does; one that is none is invalid where junk counts. rewrite: makes such asserts of other
    statements, which then count as well. The rest as `suite_in`.
    """
    openings = ("",) if rewrite else ("assert ",) if rules.answers else ("assert ", f"{entry_point}(")
    if reading == "paper":
        answer = response[:MAX_RESPONSE]
        blocks = PAPER_BLOCK.findall(answer)
        if not blocks:
            lines = [line for line in map(str.strip, answer.split("\n")) if line and line.startswith(openings)]
            suite = _suite([s for line in lines for s in (parsed(line) or ())[:1]], entry_point, rules, rewrite)
            return replace(suite, invalid=len(lines) - len(suite.tests)) if rules.junk_counts else suite
    else:
        answer = answer_in(response)
        found = [block for block in code_blocks(answer) if any(opening in block.text for opening in openings)]
        blocks = [b.text for b in found if b.is_python] or [b.text for b in found if b.may_be_python]
    if blocks:
        return suite_in("\n".join(blocks), entry_point, rules, rewrite)
    statements = _statements_from(answer, openings)
    return _suite(statements, entry_point, rules, rewrite)


def suite_in(source: str, entry_point: str, rules: SuiteRules = PLAIN_RULES, rewrite: Rewrite | None = None) -> Suite:
    """Every `assert CALL == EXPR` of Python text.

    A statement that does not parse costs itself alone; so does one that is cut off. Reading ends after the most tests
    that the rules allow, or `MAX_NODES`.
    """
    return _suite(parse_statements(source[:MAX_RESPONSE]), entry_point, rules, rewrite)


def _suite(statements: Sequence[ast.stmt], entry_point: str, rules: SuiteRules, rewrite: Rewrite | None) -> Suite:
    if rewrite is not None:
        statements = rewrite(statements)
    if not rules.answers:
        statements = [_without_answer(statement) for statement in statements]
    return _Reading(entry_point, rules).suite(statements)


def _without_answer(statement: ast.stmt) -> ast.stmt:
    match statement:
        case ast.Expr(value=call) | ast.Assert(test=ast.Compare(left=call, ops=[_])):
            return ast.Assert(ast.Compare(call, [ast.Eq()], [ast.Constant(None)]))
        case _:
            return statement


def _as_equality(statement: ast.Assert) -> ast.Assert:
    """Whatever the original takes for a test: its comparison's first two sides, if the left one is a call."""
    match statement.test:
        case ast.Compare(left=ast.Call() as call, comparators=[stated, *_]):
            return ast.Assert(ast.Compare(call, [ast.Eq()], [stated]))
        case _:
            return statement


def parse_statements(source: str) -> list[ast.stmt]:
    """The statements of a source; where it does not parse as a whole, those that do by themselves.

    Of a broken compound statement its parts are read one by one. Time is linear in the source's length.
    """
    whole = parsed(source)
    return _statements_from(source) if whole is None else whole


def _statements_from(source: str, openings: tuple[str, ...] = ("",)) -> list[ast.stmt]:
    lines = source.split("\n")  # not splitlines: a form feed or U+2028 in a string ends no line of Python
    left = _PARSED_SHARE * len(source)
    broken = 0
    statements: list[ast.stmt] = []
    at = 0
    while at < len(lines) and broken < _MAX_BROKEN:
        line = lines[at].strip()
        if not line or not line.startswith(openings):
            at += 1
            continue
        for end in _ends(lines, at) if left > 0 else [at + 1]:
            text = "\n".join(lines[at:end])
            left -= len(text)
            found = parsed(textwrap.dedent(text) if end - at > 1 else text.strip())
            if found is not None:
                statements += found
                at = end
                break
        else:
            at += 1
            broken += 1
    return statements


def _ends(lines: Sequence[str], start: int) -> Iterator[int]:
    """Where the statement that begins with a line may end, the likeliest first: after its block, after the line, or
    after a later line that closes a bracket or a quote, or follows a backslash.
    """
    width = _indentation(lines[start])
    block = start + 1
    while block < len(lines) and (not lines[block].strip() or _indentation(lines[block]) > width):
        block += 1
    yield block
    if block > start + 1:
        yield start + 1
    for end in range(start + 1, min(start + _JOINED_LINES, len(lines))):
        line = lines[end].strip()
        if line.startswith(("assert ", "def ")):  # another statement: what is open here was never closed
            return
        continued = lines[end - 1].endswith("\\")
        if end >= block and (continued or any(closing in line for closing in _CLOSINGS)):
            yield end + 1


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


class _Reading:
    def __init__(self, entry_point: str, rules: SuiteRules) -> None:
        self._entry_point = entry_point
        self._rules = rules
        self._asserts = _ASSERTS_PER_TEST * rules.most
        self._nodes = MAX_NODES
        self._sizes = {value: size_of(value) for value in rules.names.values()}  # nodes of what names are bound to
        self._tests: list[SuiteTest] = []
        self._rejected: list[RejectedTest] = []
        self._invalid = 0

    def suite(self, statements: Sequence[ast.stmt]) -> Suite:
        """The asserts of the statements and, in place, of the blocks in them: functions, classes, branches, loops.

        Without recursion, since each `elif` is a block in that of the one before.
        """
        open_blocks = [self._read_block(statements, dict(self._rules.names))]
        while open_blocks:
            inner = next(open_blocks[-1], None)
            if inner is None:
                open_blocks.pop()
            else:
                open_blocks.append(inner)
        return Suite(tuple(self._tests), tuple(self._rejected), self._invalid)

    def _read_block(self, statements: Sequence[ast.stmt], bound: dict[str, ast.expr]) -> Iterator[Iterator]:
        for statement in statements:
            if len(self._tests) >= self._rules.most or self._asserts <= 0 or self._nodes < 0:
                return
            match statement:
                case ast.Assert():
                    self._read_assert(statement, bound)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    bound[name] = value
                    self._sizes[value] = size_of(value)
                case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Delete():
                    for name in stored_names(statement):
                        bound.pop(name, None)
                case _:
                    for block in _blocks(statement):
                        self._nodes -= len(bound)
                        rebound = _rebound(statement)
                        inner = {name: value for name, value in bound.items() if name not in rebound}
                        yield self._read_block(block, inner)

    def _read_assert(self, statement: ast.Assert, bound: Mapping[str, ast.expr]) -> None:
        self._asserts -= 1
        if self._rules.junk_counts:
            statement = _as_equality(statement)
        for node in ast.walk(statement):
            self._nodes -= 1
            if isinstance(node, ast.Name) and node.id in bound:
                self._nodes -= self._sizes[bound[node.id]]
        if self._nodes < 0:
            return
        constants = {name: value for name, value in self._rules.names.items() if bound.get(name) is value}
        test = parse_test(with_values(statement, constants), self._entry_point, bound)
        if isinstance(test, Rejected):
            self._rejected.append(RejectedTest(_spelled(statement), test.reason))
            is_comparison = isinstance(statement.test, ast.Compare) and isinstance(statement.test.left, ast.Call)
            self._invalid += self._rules.junk_counts and is_comparison
        else:
            self._tests.append(test)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for holder in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield from (getattr(holder, part) for part in ("body", "orelse", "finalbody") if hasattr(holder, part))


def _rebound(statement: ast.stmt) -> frozenset[str]:
    """Names that mean something else inside: parameters, loop variables, `with ... as` names."""
    match statement:
        case ast.FunctionDef(args=own) | ast.AsyncFunctionDef(args=own):
            return frozenset(node.arg for node in ast.walk(own) if isinstance(node, ast.arg))
        case ast.For(target=target) | ast.AsyncFor(target=target):
            stored = [target]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            stored = [item.optional_vars for item in items if item.optional_vars is not None]
        case _:
            return frozenset()
    return frozenset(node.id for tree in stored for node in ast.walk(tree) if isinstance(node, ast.Name))


def _spelled(statement: ast.stmt) -> str:
    """The statement's text, for the record. Not every tree that was parsed can be written out again."""
    try:
        return ast.unparse(statement)[:MAX_REJECTED]
    except (ValueError, RecursionError, MemoryError) as error:
        return f"({type(error).__name__}: {error})"
