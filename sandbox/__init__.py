"""A judge for untrusted Python: runs programs in jails and says what they return. Standard library (and
nsjail) only.
"""

from sandbox.encoding import encode, same
from sandbox.jobs import (
    CheckJob,
    CheckResult,
    Execution,
    Job,
    JudgeJob,
    Limits,
    Outcome,
    SandboxError,
    SandboxUnavailable,
    Status,
    Test,
    Verdict,
    Verdicts,
    VerdictStatus,
    verdict_on,
)
from sandbox.judge import Judge
from sandbox.language import OutsideLanguage, Rejected, SuiteTest, parse_test
from sandbox.literals import encode_literal
from sandbox.pool import SandboxPool
from sandbox.reference import ReferenceCache

__all__ = [
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
    "SandboxError",
    "SandboxPool",
    "SandboxUnavailable",
    "Status",
    "SuiteTest",
    "Test",
    "Verdict",
    "VerdictStatus",
    "Verdicts",
    "encode",
    "encode_literal",
    "parse_test",
    "same",
    "verdict_on",
]
