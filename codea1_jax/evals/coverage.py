"""Which lines and branches of a function its tests run.

The function runs in the jail under our own tracer, which notes jumps from line to line as coverage.py does; what
could have been run, and so the shares, coverage.py works out here from the source and those jumps. No line or branch is
left out, whatever its comments ask for.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from codea1_jax.common.errors import UserError
from sandbox import Execution, Job, Judge, Limits
from sandbox.syntax import one_at_a_time

Jump = tuple[int, int]  # from line to line; -n for entering or leaving the code that begins in line n

_CHUNK = 100  # jumps that one answer holds: longer answers are digests
_JUMPS_PER_LINE = 10  # at most
_LIMITS = Limits(call_seconds=10.0, memory_mb=1024)  # tracing takes time

# What coverage.py would leave out by default: `# pragma: no cover` and the like. The last has to match nothing, since
# two empty lists together match everything.
_NO_EXCLUSIONS = {
    "report:exclude_lines": [],
    "report:partial_branches": [],
    "report:partial_branches_always": ["(?!)"],
}
_BLANK = "\n\n"  # before a program: an encoding is only declared in the first two lines

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
exec({preamble!r}, _names)
_code = compile({program!r}, "<function>", "exec")
_traced(lambda: exec(_code, _names))
exec({driver!r}, _names)

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
    """Shares, 0 to 1, of the lines that can be run and of the branches that can be taken; 1 where there are none."""

    lines: float
    branches: float


def submit_coverage(
    judge: Judge, program: str, calls: Sequence[str], preamble: str = "", driver: str = ""
) -> Callable[[], Coverage]:
    """Submits a program's runs under the tracer: its loading, and each call in its own process.

    `preamble` runs before the program and `driver` behind it, untraced. What is returned waits for the last run; it
    raises SandboxError if the judge fails, UserError without coverage.py.
    """
    traced = _BLANK + program
    tracer = _TRACER.format(program=traced, preamble=preamble, driver=driver, size=_CHUNK)
    most_jumps = _JUMPS_PER_LINE * (1 + traced.count("\n"))
    reads = tuple(f"jumps({chunk})" for chunk in range(math.ceil(most_jumps / _CHUNK)))
    runs = [
        judge.submit(Job(tracer, (*run, *reads), _LIMITS, together=True))
        for run in ((), *((f"run({call!r})",) for call in calls))
    ]
    return lambda: measure(traced, [jump for run in runs for jump in _jumps(run.result())])


def measure(program: str, jumps: Iterable[Jump]) -> Coverage:
    """coverage.py's shares for a program in which these jumps were made. Raises UserError where it is missing."""
    try:
        import coverage  # noqa: PLC0415  (an optional dependency)
    except ModuleNotFoundError:
        raise UserError("coverage is measured by coverage.py: pip install 'codea1-jax[eval]'") from None
    with tempfile.TemporaryDirectory() as folder:
        source, report = Path(folder, "solution.py"), Path(folder, "report.json")
        source.write_text(program, encoding="utf-8")
        measured = coverage.Coverage(data_file=None, branch=True, config_file=False, messages=False)
        for name, value in _NO_EXCLUSIONS.items():
            measured.set_option(name, value)
        measured.get_data().add_arcs({str(source): list(jumps)})
        with one_at_a_time:
            measured.json_report(morfs=[str(source)], outfile=str(report), ignore_errors=False)
        totals = json.loads(report.read_text())["totals"]
    return Coverage(
        lines=_share(totals["covered_lines"], totals["num_statements"]),
        branches=_share(totals["covered_branches"], totals["num_branches"]),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _jumps(execution: Execution) -> list[Jump]:
    """What a traced process answered; nothing of one that died."""
    values = [outcome.value for outcome in execution.outcomes if outcome.value is not None and outcome.value[0] == "["]
    lines = [line for value in values for line in json.loads(value)]
    return list(zip(lines[::2], lines[1::2], strict=True))
