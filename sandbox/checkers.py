"""Where many outputs are right, a question's checker decides which: code with ``check(given, output, expected)``.

It gets texts: what was put in, the tokens that the program printed, as it printed them, and those of the expected
output, one a line; it returns True or False (or None). It runs in a jail of its own, where no program was.
"""

from sandbox.jobs import CheckJob, CheckResult, Limits, Status
from sandbox.streams import text_of

_CHECK = """def check(candidate):
    try:
        answer = candidate{texts!r}
    except Exception as error:  # an assert of its own must not read as ours
        raise RuntimeError(f"{{type(error).__name__}}: {{error}}") from None
    if answer not in (True, False, None) or isinstance(answer, (int, float)) and not isinstance(answer, bool):
        raise RuntimeError(f"returned {{answer!r}}, not True or False")
    assert answer
"""


def question(checker: str, given: str, output: str, expected: str, limits: Limits | None = None) -> CheckJob:
    """Whether a checker accepts an output; both outputs are canonical texts."""
    return CheckJob(checker, _CHECK.format(texts=(given, text_of(output), text_of(expected))), "check", limits)


def fault(result: CheckResult) -> str:
    """Why a checker has given no answer; "" where it has."""
    if result.verdict.status in (Status.PASSED, Status.FAILED):
        return ""
    return f"{result.verdict.status} {result.verdict.detail.removeprefix('RuntimeError: ')}".rstrip()
