"""Which branches of the reference each test takes.

The reference runs in the jail under a tracer; no program that a model wrote is near it. A branch is one of the two ways
in which an instruction of its bytecode may continue: lines would not tell the parts of `a if x else b` apart.
(`evals.coverage` measures coverage.py's lines and branches, which others report too.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from codea1_jax.game.values import Finds
from data_pipeline import Problem
from data_pipeline.validate import allowed
from sandbox import Job, Judge, Outcome, Test

_MOST_STEPS = 100_000  # instructions of one call that are traced, each a hundred times slower than untraced

# Every call gets functions and globals of its own. The number of a branch follows from the bytecode alone.
_TRACER = """\
import opcode, sys
_preamble = compile({preamble!r}, "<preamble>", "exec")
_code = compile({program!r}, "<reference>", "exec")
_driver = compile({driver!r}, "<driver>", "exec")
_branches = {{}}

def _number(code):
    steps = [i for i in range(0, len(code.co_code), 2) if code.co_code[i]]  # 0: a cache, which is never run
    for at, following in zip(steps, steps[1:]):
        name = opcode.opname[code.co_code[at]]
        if name == "FOR_ITER" or "JUMP" in name and "_IF_" in name:
            _branches[id(code), at] = following, 2 * len(_branches)
    for part in code.co_consts:
        if isinstance(part, type(code)):
            _number(part)

_number(_code)

def branches():
    return 2 * len(_branches)

def taken(call):
    names, found, before, steps = {{"__name__": "solution"}}, set(), {{}}, iter(range({most}))
    exec(_preamble, names)
    exec(_code, names)
    exec(_driver, names)

    def trace(frame, event, argument):
        if frame.f_code.co_filename != "<reference>":
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            following, number = _branches.get((id(frame.f_code), before.get(frame)), (None, None))
            if number is not None:
                found.add(number + (frame.f_lasti != following))
            before[frame] = frame.f_lasti
            if next(steps, None) is None:
                sys.settrace(None)
        elif event != "line":
            before.pop(frame, None)
        return trace

    function = eval("lambda: " + call, names)
    sys._getframe().f_trace_opcodes = True  # or Python 3.12 traces no instruction in the first call
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(None)
    return format(sum(1 << number for number in found), "x")
"""


def submit_branches(judge: Judge, problem: Problem, tests: Sequence[Test]) -> Callable[[], Finds]:
    """Submits the calls of tests of the reference, under the tracer; what is returned waits for what they find. A call
    that dies there takes no branch.

    Raises SandboxError if the judge fails.
    """
    texts = {"preamble": problem.above, "program": problem.solution, "driver": problem.driver}
    tracer = _TRACER.format(**texts, most=_MOST_STEPS)
    asked = ("branches()", *(f"taken({test.call!r})" for test in tests))
    limits = allowed(problem, judge.limits)
    limits = replace(limits, program_seconds=limits.load_seconds + len(asked) * limits.call_seconds)
    pending = judge.submit(Job(tracer, asked, limits, together=True))

    def result() -> Finds:
        total, *outcomes = pending.result().outcomes
        return Finds(dict(zip(tests, map(_numbers, outcomes), strict=True)), int(total.value or 0))

    return result


def _numbers(outcome: Outcome) -> frozenset[int]:
    """Of a text of hexadecimal digits, which bits are set; none of a digest, which a very long text is."""
    digits = (outcome.value or "").strip('"')
    mask = int(digits, 16) if digits.isalnum() else 0
    return frozenset(number for number in range(mask.bit_length()) if mask >> number & 1)
