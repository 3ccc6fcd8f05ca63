"""Which calls and inputs a question allows: those that every right program can be called by, or reads.

A question that does not state the names of its parameters leaves them to the program, and one that does not mention an
optional parameter of the reference (``memo={}``) leaves it out. A test that counts on either fails right programs. So
does one of a method that only the reference has, and an input in other lines than the golden ones: the reference may
take it by `read().split()`, and others line by line.
"""

import ast
import re
from functools import lru_cache
from itertools import accumulate

from data_pipeline import Problem
from data_pipeline.golden import read_golden_tests
from sandbox import classes
from sandbox.syntax import is_call_of, parse_expression, parsed

_MAX_KEPT = 4_096
_SEVERAL = 3  # golden inputs that do not agree by chance
_ODD_BLANK = re.compile(r"[^\S \n]|  |^ | $", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`|\b\w+(?=\()|(?<=\w\.)\w+|(?<=[\"'])\w+(?=[\"'])")


def is_allowed(problem: Problem, call: str) -> bool:
    """Whether the question tells enough to make this call: its number of arguments, and the names of those by name.

    `call` is in the suite language.
    """
    made = next(node for node in ast.walk(parse_expression(call)) if is_call_of(node, problem.entry_point))
    names = _shown_names(problem.described, problem.entry_point)
    if any(keyword.arg not in names for keyword in made.keywords):
        return False
    most = _most_arguments(problem, names)
    count = _count(made.args)
    return most is None or (count is not None and count + len(made.keywords) <= most)


def are_methods(problem: Problem, call: str) -> bool:
    """Whether the question writes every method that a test calls as code, or a golden test calls it."""
    return _methods(problem).issuperset(classes.methods(call))


@lru_cache(maxsize=_MAX_KEPT)
def _methods(problem: Problem) -> frozenset[str]:
    written = _CODE.findall(problem.described)
    golden = [name for test in read_golden_tests(problem) for name in classes.methods(test.call)]
    return frozenset(re.findall(r"\w+", " ".join(written))).union(golden)


def is_laid_out(problem: Problem, call: str) -> bool:
    """Whether an input is in lines as the golden ones are: of their number, and with as many words in the first one,
    where all of several agree; of more than one, where all have more; and without blanks that none of them has.
    """
    golden, own = _golden_layouts(problem), _Layout(call)
    if not golden:
        return True
    if own.has_odd_blanks and not any(each.has_odd_blanks for each in golden):
        return False
    if own.has_empty_lines and not any(each.has_empty_lines for each in golden):
        return {each.lines() for each in golden} == {own.lines()}  # a list without items
    if len(golden) >= _SEVERAL and len({sum(each.words) for each in golden}) > 1:
        for of in (_Layout.lines, _Layout.first):
            if len({of(each) for each in golden}) == 1 and of(own) != of(golden[0]):
                return False
    return own.lines() > 1 or any(each.lines() == 1 for each in golden)


@lru_cache(maxsize=_MAX_KEPT)
def _golden_layouts(problem: Problem) -> "tuple[_Layout, ...]":
    return tuple(_Layout(test.call) for test in read_golden_tests(problem))


class _Layout:
    def __init__(self, text: str) -> None:
        text = text.replace("\r\n", "\n").removesuffix("\n")
        self.words = [len(line.split()) for line in text.split("\n")]
        self.has_empty_lines = 0 in self.words
        self.has_odd_blanks = _ODD_BLANK.search(text) is not None

    def lines(self) -> int:
        return len(self.words)

    def first(self) -> int:
        return self.words[0]


@lru_cache(maxsize=_MAX_KEPT)
def _shown_names(question: str, entry_point: str) -> tuple[str, ...]:
    """The parameters of the function, where the question writes it with them: ``def f(x, y=0)`` or ``f(x, y)``."""
    names: dict[str, None] = {}
    for match in re.finditer(rf"\b{re.escape(entry_point)}\(", question):
        names |= dict.fromkeys(_parameters(question[match.end() :]))
    return tuple(names)


def _parameters(text: str) -> list[str]:
    depths = accumulate(((character in "([{") - (character in ")]}") for character in text), initial=1)
    end = next((place for place, depth in enumerate(depths) if depth == 0), 0)
    match parsed(f"def f({text[: max(0, end - 1)]}): pass"):
        case [ast.FunctionDef(args=arguments)]:
            return [name for name in _names(arguments) if name != "self"]
        case _:
            return []


def _names(arguments: ast.arguments) -> list[str]:
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _most_arguments(problem: Problem, shown: tuple[str, ...]) -> int | None:
    """How many arguments the question lets a call have; None if the question does not say, or sets no limit."""
    arguments = _reference_arguments(problem.solution, problem.entry_point)
    if arguments is None or arguments.vararg:
        return None
    names = [name for name in _names(arguments) if name != "self"]
    needed = len(names) - len(arguments.defaults) - len(arguments.kwonlyargs)
    if shown:
        return max(needed, len(shown))
    words = frozenset(re.findall(r"\w+", problem.described))
    return needed + sum(name in words for name in names[needed:])


@lru_cache(maxsize=_MAX_KEPT)
def _reference_arguments(solution: str, entry_point: str) -> ast.arguments | None:
    nodes = [node for statement in parsed(solution) or () for node in ast.walk(statement)]
    found = [node.args for node in nodes if isinstance(node, ast.FunctionDef) and node.name == entry_point]
    return found[-1] if found else None


def _count(arguments: list[ast.expr]) -> int | None:
    count = 0
    for argument in arguments:
        match argument:
            case ast.Starred(value=ast.List(elts=items) | ast.Tuple(elts=items)):
                inner = _count(items)
                if inner is None:
                    return None
                count += inner
            case ast.Starred():
                return None
            case _:
                count += 1
    return count
