"""Where many outputs are right, the problem's checker decides which: code with ``check(given, output, expected)``.

It gets texts: what was put in, the tokens that the program printed, and those that the reference printed, one a line.
It runs in a jail of its own, where no program was; an output is right if it returns True. An output that is accepted
counts as the reference's, so that nothing else need know of checkers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from data_pipeline.problem import Problem
from sandbox import CheckJob, Judge, Outcome, SuiteTest
from sandbox.streams import text_of

_CHECK = "def check(candidate):\n    assert candidate{texts!r} is True\n"


def apply_checker(
    judge: Judge, problem: Problem, outcomes: Mapping[str, Outcome], expected: Mapping[str, str]
) -> dict[str, Outcome]:
    """A program's outcomes by input, those that the checker accepts with the expected value of that input.

    Raises SandboxError if the judge fails.
    """
    if not problem.checker:
        return dict(outcomes)
    asked = [
        (given, outcome.value, expected[given])
        for given, outcome in outcomes.items()
        if outcome.value is not None and given in expected
    ]
    right = accepted(judge, problem, asked)
    values = {given: value for (given, _, value), is_right in zip(asked, right, strict=True) if is_right}
    return {given: replace(o, value=values[given]) if given in values else o for given, o in outcomes.items()}


def stated_or_expected(
    judge: Judge, problem: Problem, tests: Sequence[SuiteTest], stated: Sequence[str | None], known: Sequence[Outcome]
) -> list[str | None]:
    """The stated answers of tests; in place of those that the checker accepts, what the reference gives."""
    if not problem.checker:
        return list(stated)
    asked = {
        i: (test.call, answer, outcome.value)
        for i, (test, answer, outcome) in enumerate(zip(tests, stated, known, strict=True))
        if answer is not None and outcome.value is not None
    }
    right = dict(zip(asked, accepted(judge, problem, list(asked.values())), strict=True))
    return [known[i].value if right.get(i) else answer for i, answer in enumerate(stated)]


def accepted(judge: Judge, problem: Problem, asked: Sequence[tuple[str, str, str]]) -> list[bool]:
    """Whether each output is right, for (input, canonical text of the output, that of the reference's, which is)."""
    pending = {}
    for given, value, expected in asked:
        texts = (given, text_of(value), text_of(expected))
        if value != expected and None not in texts:
            job = CheckJob(problem.checker, _CHECK.format(texts=texts), "check")
            pending[given, value, expected] = judge.submit(job)
    return [each[1] == each[2] or (each in pending and pending[each].result().passed) for each in asked]
