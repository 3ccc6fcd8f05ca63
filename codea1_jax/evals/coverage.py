"""Which lines and branches of a function its tests run.

The function runs in the jail under a tracer of our own, which notes jumps from line to line as coverage.py does; what
could have been run, and so the shares, coverage.py works out here from the source and those jumps.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from codea1_jax.run.config import ConfigError
from sandbox import Execution, Job, Judge, Limits
from sandbox.syntax import one_at_a_time

Jump = tuple[int, int]  # from line to line; -n for entering or leaving the code that begins in line n

_CHUNK = 100  # jumps that one answer holds: longer answers are digests
_CHUNKS = 20
_LIMITS = Limits(call_seconds=10.0, memory_mb=1024)  # tracing takes time

_TRACER = """\
import sys
_RESUME = __import__("dis").opmap["RESUME"]
_jumps = set()
_lines = {{}}

def _trace(frame, event, argument):
    code = frame.f_code
    if code.co_filename != "<function>":
        return None
    first, at = code.co_firstlineno, frame.f_lasti
    if event == "call":
        begins = code.co_code[at] == _RESUME and code.co_code[at + 1] == 0
        _lines[frame] = -first if begins else frame.f_lineno
    elif event == "line":
        _jumps.add((_lines[frame], frame.f_lineno))
        _lines[frame] = frame.f_lineno
    elif event == "return":
        following = code.co_code[at + 2 : at + 3]
        if not following or following[0] != _RESUME:  # a yield continues there
            _jumps.add((_lines[frame], -first))
        del _lines[frame]
    return _trace

def _traced(function):
    sys.settrace(_trace)
    try:
        return function()
    except Exception:
        return None
    finally:
        sys.settrace(None)

_names = {{"__name__": "solution"}}
_code = compile({program!r}, "<function>", "exec")
_traced(lambda: exec(_code, _names))

def run(call):
    function = eval("lambda: " + call, _names)
    _traced(function)
    return len(_jumps)

def jumps(chunk):
    ordered = sorted(_jumps)[chunk * {size} : (chunk + 1) * {size}]
    return [line for jump in ordered for line in jump]
"""


@dataclass(frozen=True)
class Coverage:
    """Shares, 0 to 1, of the lines that can be run and of the branches that can be taken (1 where there are none)."""

    lines: float
    branches: float


class PendingCoverage:
    """A program's runs under the tracer, already with the pool: its loading, and each call in a process of its own."""

    def __init__(self, pool: Judge, program: str, calls: Sequence[str]) -> None:
        self._program = program
        tracer = _TRACER.format(program=program, size=_CHUNK)
        reads = tuple(f"jumps({chunk})" for chunk in range(_CHUNKS))
        self._runs: list[Future[Execution]] = [
            pool.submit(Job(tracer, (*run, *reads), _LIMITS, together=True))
            for run in ((), *((f"run({call!r})",) for call in calls))
        ]

    def result(self) -> Coverage:
        """Waits for the last run. Raises SandboxError if the judge fails, ConfigError without coverage.py."""
        return measure(self._program, [jump for run in self._runs for jump in _jumps(run.result())])


def measure(program: str, jumps: Iterable[Jump]) -> Coverage:
    """coverage.py's shares for a program in which these jumps were made. Raises ConfigError where it is missing."""
    try:
        import coverage  # noqa: PLC0415  (an optional dependency)
    except ModuleNotFoundError:
        raise ConfigError("coverage is measured by coverage.py: pip install 'codea1-jax[eval]'") from None
    with tempfile.TemporaryDirectory() as folder:
        source, report = Path(folder, "solution.py"), Path(folder, "report.json")
        source.write_text(program)
        measured = coverage.Coverage(data_file=None, branch=True, config_file=False, messages=False)
        measured.get_data().add_arcs({str(source): list(jumps)})
        with one_at_a_time:
            measured.json_report(morfs=[str(source)], outfile=str(report), ignore_errors=False)
        totals = json.loads(report.read_text())["totals"]
    return Coverage(
        lines=totals["covered_lines"] / totals["num_statements"],
        branches=totals["covered_branches"] / totals["num_branches"] if totals["num_branches"] else 1.0,
    )


def _jumps(execution: Execution) -> list[Jump]:
    """What a traced process answered; nothing of one that died."""
    values = [outcome.value for outcome in execution.outcomes if outcome.value is not None and outcome.value[0] == "["]
    lines = [line for value in values for line in json.loads(value)]
    return list(zip(lines[::2], lines[1::2], strict=True))
