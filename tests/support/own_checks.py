"""Runs the check of a benchmark's problem."""

from data_pipeline import Problem


def passes(problem: Problem, program: str) -> bool:
    """Whether the problem's own check accepts the program, each in its own namespace."""
    candidate: dict = {}
    checker: dict = {}
    exec(program, candidate)
    exec(problem.check, checker)
    try:
        checker["check"](candidate[problem.entry_point])
    except AssertionError:
        return False
    return True
