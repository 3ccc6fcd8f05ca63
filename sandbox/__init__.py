"""A judge for untrusted Python: runs programs in jails and reports what they return. It needs the standard library and
nsjail alone, except over HTTP.

    with SandboxPool() as pool:
        (verdicts,) = pool.judge([JudgeJob("def f(x): return x + 1", (Test("f(1)", "2"),))])

A program runs in its own processes, which end with it, in a jail without network, /proc or other users' files. It is
given calls and the values of their arguments, never what they should return; what stands around a call is computed
elsewhere, and verdicts are comparisons of canonical texts of plain data, made outside. Each call is answered as if it
were the only one. With `Task.STREAM` a program is a script instead, run once for each input (see `sandbox.streams`).

Folders follow trust: `inside` is all that runs in the jail, `host` starts jails and decides verdicts, `remote` does so
over HTTP. On top is what they share: the language of jobs, calls and verdicts. What fails because of the program is a
verdict; what fails because of the judge raises.

Not protected against (docs/sandbox.md says more, and in bits):
- flaws of the kernel. Programs run native code on it, behind namespaces and a filter of system calls.
- what can be measured rather than read, by which two programs could whisper to each other: times, numbers that the
  kernel counts up (files, pipes, sockets), and what programs share that run at the same time.
- files as locks: advisory locks succeed and lock nothing.
- use of the whole machine up to the limits, which without cgroups hold for each of a program's processes.
- checks that run in the program's process (`CheckJob.in_process`): a program can find and change what judges it there.
- the backend "process", which has limits but no jail.
"""

from sandbox.host.jail import BackendName
from sandbox.host.pool import SandboxPool
from sandbox.inside.encoding import encode, same
from sandbox.jobs import (
    CheckJob,
    CheckResult,
    Execution,
    Job,
    JudgeJob,
    Limits,
    Outcome,
    Request,
    SandboxError,
    SandboxUnavailable,
    ScriptJob,
    ScriptResult,
    Status,
    Task,
    Test,
    Verdict,
    Verdicts,
    verdict_on,
)
from sandbox.judge import Judge, in_thread, then
from sandbox.language import OutsideLanguage, Rejected, SuiteTest, encode_literal, parse_test
from sandbox.reference import ReferenceCache
from sandbox.streams import encode_stated
from sandbox.tolerance import EXACT, FEW_ULPS, Tolerance

__all__ = [
    "EXACT",
    "FEW_ULPS",
    "BackendName",
    "CheckJob",
    "CheckResult",
    "Execution",
    "Job",
    "Judge",
    "JudgeJob",
    "Limits",
    "Outcome",
    "OutsideLanguage",
    "ReferenceCache",
    "Rejected",
    "Request",
    "SandboxError",
    "SandboxPool",
    "SandboxUnavailable",
    "ScriptJob",
    "ScriptResult",
    "Status",
    "SuiteTest",
    "Task",
    "Test",
    "Tolerance",
    "Verdict",
    "Verdicts",
    "checkers",
    "classes",
    "encode",
    "encode_literal",
    "encode_stated",
    "host",
    "in_thread",
    "language",
    "nodes",
    "parse_test",
    "remote",
    "same",
    "streams",
    "syntax",
    "then",
    "verdict_on",
]
