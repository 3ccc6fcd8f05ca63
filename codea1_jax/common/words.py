"""Words for people."""

from collections.abc import Mapping


def counted(number: int, noun: str) -> str:
    """`1 question`, `2 questions`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def audit_line(benchmark: str, figures: Mapping[str, int]) -> str:
    """What an audit has found of a benchmark's checks."""
    passed = f"{figures['passed_by_trivial']} of {counted(figures['problems'], 'problem')}"
    return f"{benchmark}: the checks of {passed} pass a program that solves nothing"
