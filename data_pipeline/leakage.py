"""Keeps the benchmarks out of training questions, and the answers of golden tests out of their descriptions."""

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from data_pipeline.problem import Loaded, Problem
from data_pipeline.source_code import parse
from sandbox import Task
from sandbox.syntax import is_call_of

NGRAM_WORDS = 13
"""Length of a run of words that counts as the same text, as in GPT-3's decontamination (arXiv 2005.14165)."""

_CODE = ("def ", "assert ", "import ", "from ", "class ", "@", ">>>")
_DOCSTRING_QUOTES = ('"""', "'''")


def drop_duplicates(loaded: Loaded) -> Loaded:
    """`loaded` without problems whose question has the same words as an earlier one."""
    first: dict[tuple[str, ...], str] = {}
    reasons = {}
    for problem in loaded.problems:
        words = _words(problem.question)
        if words in first:
            reasons[problem.id] = f"same question as another: {first[words]}"
        first.setdefault(words, problem.id)
    return loaded.refusing(reasons)


def drop_overlaps(loaded: Loaded, evaluation: Sequence[Problem]) -> Loaded:
    """`loaded` without problems whose question shares a run of 13 words with an evaluation question.

    If an evaluation question has fewer words, the run is all of them. Lines of code and doctest prompts do not count.
    """
    owners = {run: problem for problem in evaluation for run in _runs(_words(_prose(problem.question)), NGRAM_WORDS)}
    lengths = sorted({len(run) for run in owners}, reverse=True)
    reasons = {}
    for problem in loaded.problems:
        words = _words(_prose(problem.question))
        runs = (run for length in lengths for run in _runs(words, length))
        shared = next((run for run in runs if run in owners), None)
        if shared:
            reasons[problem.id] = f"overlaps with {owners[shared].source}: {owners[shared].id}, {' '.join(shared)!r}"
    return loaded.refusing(reasons)


def described(problem: Problem) -> Problem:
    """The problem with a description for those who write tests: its question without examples.

    The question itself stays whole, as in the original, where the Code LLM sees its examples. A problem that has a
    description, or whose question has no examples, is unchanged; so is a stream, whose examples define its format.
    """
    if problem.task is Task.STREAM:
        return problem
    description = _without_examples(problem)
    changed = not problem.description and description != problem.question
    return replace(problem, description=description) if changed else problem


def _without_examples(problem: Problem) -> str:
    """The question without its examples and the answers of golden tests.

    These are doctest examples (with their output) and other lines that contain the call of a golden test.
    """
    nodes = [node for test in problem.golden_tests for node in ast.walk(parse(test, "a golden test"))]
    calls = {_squeezed(ast.unparse(node)) for node in nodes if is_call_of(node, problem.entry_point)}
    kept = []
    in_output = False
    for line in problem.question.splitlines():
        is_prompt = line.lstrip().startswith(">>>")
        ends_output = is_prompt or not line.strip() or any(quotes in line for quotes in _DOCSTRING_QUOTES)
        states_answer = any(call in _squeezed(line) for call in calls)
        in_output = is_prompt or (in_output and not ends_output)
        if not states_answer and not in_output:
            kept.append(line)
    return "\n".join(kept) if len(kept) < len(problem.question.splitlines()) else problem.question


def _squeezed(text: str) -> str:
    """The text without white space and with one kind of quotes: equal calls may differ in both."""
    return re.sub(r"\s", "", text).replace("'", '"')


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[^\W_]+", text.lower()))


def _prose(question: str) -> str:
    return "\n".join(line for line in question.splitlines() if not line.lstrip().startswith(_CODE))


def _runs(words: tuple[str, ...], length: int) -> list[tuple[str, ...]]:
    if not words:
        return []
    return [words[start : start + length] for start in range(max(1, len(words) - length + 1))]
