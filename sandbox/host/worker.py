"""One zygote as the host sees it: started, fed with requests, listened to, and ended."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from sandbox.host.boot import boot_text
from sandbox.host.cgroup import WorkerGroup
from sandbox.host.jail import LAST_PID, Launch
from sandbox.host.protocol import Report
from sandbox.inside import zygote
from sandbox.jobs import Limits, SandboxUnavailable

_START_SECONDS = 60.0


class WorkerDied(Exception):
    """The zygote ended, or stopped answering, before it reported."""


class Worker:
    """A running zygote. Reports come in the order of the requests."""

    def __init__(self, launch: Launch, preload: Sequence[str], groups: Path | None = None) -> None:
        """Start the zygote, in a cgroup of its own below `groups`; `wait_ready` must follow."""
        self._backend = launch.backend
        self._control, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._group = WorkerGroup(groups) if groups else None
        with ExitStack() as stack:
            control = stack.enter_context(theirs).fileno()
            last_pid = _last_pid(stack) if launch.backend == "nsjail" else None
            start = f"inside.zygote.main({control}, {tuple(preload)!r}, {launch.scratch!r}, {last_pid})"
            text = boot_text(start, [launch.packages] if launch.packages else [])
            boot = stack.enter_context(memory_file(text.encode()))
            os.lseek(boot.fileno(), 0, os.SEEK_SET)
            self._process = subprocess.Popen(
                launch.arguments(control, last_pid, self._group and self._group.folder),
                stdin=boot,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=(control,) if last_pid is None else (control, last_pid),
                env=launch.environment,
                cwd="/",
                start_new_session=True,  # an interrupt from the terminal is for the host alone
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> None:
        """Return when the zygote serves. Raises SandboxUnavailable with the jail's own words."""
        self._control.settimeout(_START_SECONDS)
        try:
            ready = self._control.recv(len(zygote.READY)) == zygote.READY
        except OSError:
            ready = False
        if not ready:
            failure = self._failure()
            self.close()
            raise failure

    def send(self, grant: bytes, request: IO[bytes], result: IO[bytes], limits: Limits) -> None:
        """Queue one request with the zygote; if it is dead, `receive` reports it."""
        if self._group:
            self._group.allow(limits)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._control, [grant], [request.fileno(), result.fileno()])

    def receive(self, timeout: float) -> Report:
        """The report on the oldest request; `timeout` in wall-clock seconds. Raises WorkerDied."""
        self._control.settimeout(timeout)
        data = b""
        while len(data) < zygote.REPORT.size:
            try:
                part = self._control.recv(zygote.REPORT.size - len(data))
            except OSError as error:
                raise WorkerDied(str(error)) from error
            if not part:
                raise WorkerDied(f"the zygote ended: {self._last_words()}")
            data += part
        self.ran_out_of_memory()
        return Report.unpack(data)

    def ran_out_of_memory(self) -> bool:
        """Whether, in their cgroup, processes of the current program or the one before needed more than they may."""
        return self._group is not None and self._group.ran_out()

    def kill(self) -> None:
        """End the zygote and everything in its jail; `receive`, in whatever thread, raises WorkerDied."""
        self._process.kill()

    def close(self) -> None:
        """End the zygote and release what the host holds of it."""
        self._control.close()
        self.kill()
        self._process.wait()
        self._errors.close()
        if self._group:
            self._group.remove()

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read(100_000).decode("utf-8", "replace").splitlines()
        telling = [line for line in lines if line.startswith("[E]") or line.startswith("[F]")] or lines[-1:]
        return " | ".join(telling[:3]) or "it printed nothing"

    def _failure(self) -> SandboxUnavailable:
        words = self._last_words()
        if self._backend == "process":
            return SandboxUnavailable(f"the sandbox process did not start: {words}")
        return SandboxUnavailable(
            f"the jail did not start ({words}): run `codea1 sandbox check`, "
            "or choose sandbox.backend=process, which jails nothing"
        )


def _last_pid(stack: ExitStack) -> int | None:
    """A descriptor by which a zygote starts process ids over; None where this kernel, or container, has none."""
    try:
        descriptor = os.open(LAST_PID, os.O_WRONLY)
    except OSError:
        return None
    stack.callback(os.close, descriptor)
    return descriptor


def memory_file(content: bytes = b"") -> IO[bytes]:
    """An anonymous file that holds `content`, in memory where the system has such files.

    Raises OSError if it cannot hold all of it, as under a limit on the size of files.
    """
    if sys.platform == "linux":
        file: IO[bytes] = os.fdopen(os.memfd_create("judge"), "w+b", buffering=0)
    else:
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
    rest = memoryview(content)
    try:
        while rest:  # a write may be a short one, and only the next one is refused
            rest = rest[file.write(rest) :]
    except OSError as error:
        file.close()
        raise OSError(error.errno, error.strerror, "the judge's file in memory") from error
    return file
