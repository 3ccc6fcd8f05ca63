"""The judge by itself: which tests a program passes, by a verdict that the program cannot forge.

    from codea1_judge import Judge

    with Judge() as judge:
        verdicts = judge.judge("def double(x): return x + x", ["assert double(2) == 4", "assert double('a') == 'aa'"])
    assert verdicts.passed

A test is a line `assert CALL == VALUE`, which may state a tolerance (`== pytest.approx(VALUE)`), or of a program that
reads standard input a pair of texts: the input, and the output that must come out. Limits, jobs and the rest of the
language are those of `sandbox`; rows of datasets are read by `data_pipeline`, whose problems state tests as well.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codea1_judge.judge import Judge
    from data_pipeline import Problem, load
    from data_pipeline.responses import program_in
    from sandbox import Limits, SandboxError, SandboxUnavailable, Verdicts

__all__ = [
    "Judge",
    "Limits",
    "Problem",
    "SandboxError",
    "SandboxUnavailable",
    "Verdicts",
    "cli",
    "load",
    "program_in",
]

_ELSEWHERE = {
    "Judge": "codea1_judge.judge",
    "program_in": "data_pipeline.responses",
    **dict.fromkeys(("Problem", "load"), "data_pipeline"),
    **dict.fromkeys(("Limits", "SandboxError", "SandboxUnavailable", "Verdicts"), "sandbox"),
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for only then: a command line that lists the judge's options does not wait for it."""
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE[name]), name)
