"""What runs inside the jail: a lean interpreter that forks one child per program.

The zygote never sees a program. For each request it receives two file descriptors and forks; the child reads the
request from the first and writes its answers to the second, an ordinary memory file, so that they survive its death
and cost nobody a wake-up. The zygote watches the child's progress in that file (see `sandbox.inside.watch`), and ends
every process of the program before it reports. Nothing here is secret: a program that rewrites all of it can only lie
about its own values.

What a program costs beyond its own work is mostly page faults: every page that a child or the zygote writes to after a
fork is copied first, and a count of references is a write. So this imports as little as possible, by the names that C
gives it (`_signal` has no enums to look up), and rehearses once what children do.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import gc
import os
import resource
import struct
import time
from collections.abc import Callable
from typing import NoReturn

from sandbox.inside import checker, evaluation, scratch, stream
from sandbox.inside.watch import GRANT, Watch

# Wait status; CPU and wall seconds; whether and why the child was cut short; idle seconds of its loading.
REPORT = struct.Struct("i2dBd")
READY = b"ready"

_CAPABILITY_VERSION = 0x20080522
_RUNS = (evaluation.run, checker.run, stream.run)  # by what a request is: see `sandbox.inside.watch`
_FREED_NUMBERS = 64  # more than one request leaves behind


def main(control_fd: int, preload: tuple[str, ...], scratch_folder: str, last_pid_fd: int | None) -> None:
    """Serve requests until the host closes the control socket; `scratch_folder` ("": none) is empty for each.

    With `last_pid_fd`, and the capability to write to it, process ids start over for each.
    """
    _import_random()
    for name in preload:
        __import__(name)
    control = _socket.socket(fileno=control_fd)
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # which a PID 1 ignores: no program can interrupt the zygote
    _renew_streams()
    if scratch_folder:
        scratch.empty(scratch_folder)
    ids = _ProcessIds(last_pid_fd)
    evaluation.rehearse()
    stream.rehearse()
    gc.collect()
    gc.freeze()
    control.sendall(READY)
    grant, report = bytearray(GRANT.size), bytearray(REPORT.size)
    while _serve(control, scratch_folder, ids, grant, report):
        _forget(grant, report)


class _ProcessIds:
    """The process ids of programs: where the kernel allows it, each program finds those that the first one found."""

    def __init__(self, last_pid_fd: int | None) -> None:
        self._fd = -1
        if last_pid_fd is None:
            return
        import ctypes  # noqa: PLC0415  (programs that cannot count processes do without its memory)

        self._capset = ctypes.CDLL(None).capset
        self._none = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION, 0)), bytes(24)
        self._fd = last_pid_fd
        try:
            self.start_over()
        except PermissionError:  # of a container around the jail
            self.give_up()
            self._fd = -1

    def start_over(self) -> None:
        """The next process is the first one after the zygote."""
        if self._fd >= 0:
            os.pwrite(self._fd, b"1", 0)

    def give_up(self) -> None:
        """Lose for good what `start_over` needs. Raises RuntimeError."""
        if self._fd >= 0:
            os.close(self._fd)
            if self._capset(*self._none):
                raise RuntimeError("a capability cannot be given up")


def _import_random() -> None:
    """Import `random` without the hook by which it seeds itself in every fork: see `evaluation.reseed`."""
    register = os.register_at_fork
    os.register_at_fork = lambda **_hooks: None
    try:
        evaluation.reseed()
    finally:
        os.register_at_fork = register


def _serve(control: _socket.socket, scratch_folder: str, ids: _ProcessIds, grant: bytearray, report: bytearray) -> bool:
    size, ancillary, *_ = control.recvmsg_into([grant], _socket.CMSG_SPACE(8))
    if not size:
        return False
    request_fd, result_fd = struct.unpack("2i", ancillary[0][2])
    ids.start_over()
    pid = os.fork()
    if pid == 0:
        _become(control, ids, _RUNS[grant[-1]], request_fd, result_fd)
    _supervise(pid, result_fd, grant, report)
    if scratch_folder:
        scratch.empty(scratch_folder)
    control.sendall(report)
    os.close(request_fd)
    os.close(result_fd)
    return True


def _become(
    control: _socket.socket, ids: _ProcessIds, run: Callable[[int, int], None], request_fd: int, result_fd: int
) -> NoReturn:
    try:
        ids.give_up()
        control.close()
        _renew_streams()
        _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
        os.setpgid(0, 0)
        run(request_fd, result_fd)
        os._exit(0)
    finally:
        os._exit(1)


def _renew_streams() -> None:
    """Make descriptors 0 to 2 this process's own: flags and owners of those that it inherited would outlive it."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)


def _supervise(pid: int, result_fd: int, grant: bytearray, report: bytearray) -> None:
    """Wait no longer for a child than is granted, end whatever the program left behind, and report."""
    started = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    watch = Watch(pid, result_fd, grant)
    watch.start()
    _, status = os.waitpid(pid, 0)
    watch.stop()
    _end_all(pid)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall_seconds, idle_load = time.monotonic() - started, watch.idle_load(cpu_seconds)
    REPORT.pack_into(report, 0, status, cpu_seconds, wall_seconds, watch.cut_in_all(cpu_seconds), idle_load)


def _forget(grant: bytearray, report: bytearray) -> None:
    """Overwrite what the zygote learned of a program, or the next one, its fork, could read it.

    No variable holds any of it any more, but freed numbers stay in memory until others take their place.
    """
    grant[:] = bytes(len(grant))
    report[:] = bytes(len(report))
    resource.getrusage(resource.RUSAGE_SELF)
    _ = [float(number) for number in range(_FREED_NUMBERS)], [number << 40 for number in range(_FREED_NUMBERS)]


def _end_all(pid: int) -> None:
    try:
        if os.getpid() == 1:
            os.kill(-1, _signal.SIGKILL)
        else:
            os.killpg(pid, _signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
