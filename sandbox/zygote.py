"""What runs inside the jail: a lean interpreter that forks one child per program.

The zygote never sees a program. For each request it receives two file descriptors and forks; the child reads the
request from the first and writes its answers to the second, an ordinary memory file, so that they survive its death
and cost nobody a wake-up. The zygote watches the child's progress in that file (see `sandbox.watch`), and ends every
process of the program before it reports. Nothing here is secret: a program that rewrites all of it can only lie about
its own values.

Standard library only, and as little of it as possible: every page that is touched here is copied by every fork.
"""

import _socket
import gc
import os
import resource
import signal
import struct
import time
from collections.abc import Callable

from sandbox import checker, evaluation, scratch
from sandbox.watch import GRANT, Watch

REPORT = struct.Struct("i2dB")  # wait status, CPU seconds, wall seconds, whether and why the child was cut short
READY = b"ready"


def main(control_fd: int, preload: tuple[str, ...], scratch_folder: str) -> None:
    """Serve requests until the host closes the control socket; `scratch_folder` ("": none) is emptied after each."""
    for name in preload:
        __import__(name)
    control = _socket.socket(fileno=control_fd)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a PID 1 ignores: no program can interrupt the zygote
    os.dup2(1, 0)
    os.dup2(1, 2)
    gc.collect()
    gc.freeze()
    control.sendall(READY)
    while True:
        data, ancillary, *_ = control.recvmsg(GRANT.size, _socket.CMSG_SPACE(8))
        if not data:
            return
        request_fd, result_fd = struct.unpack("2i", ancillary[0][2])
        run = checker.run if GRANT.unpack(data)[-1] else evaluation.run

        def child(run: Callable[[int, int], None] = run, fds: tuple[int, int] = (request_fd, result_fd)) -> None:
            control.close()
            run(*fds)

        report = _supervise(child, result_fd, data)
        if scratch_folder:
            scratch.empty(scratch_folder)
        control.sendall(report)
        os.close(request_fd)
        os.close(result_fd)


def _supervise(child: Callable[[], None], result_fd: int, grant: bytes) -> bytes:
    """Fork, wait no longer than is granted, end whatever the program left behind, and report."""
    started = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    pid = os.fork()
    if pid == 0:
        _become(child)
    watch = Watch(pid, result_fd, grant)
    watch.start()
    _, status = os.waitpid(pid, 0)
    watch.stop()
    _end_all(pid)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return REPORT.pack(status, cpu_seconds, time.monotonic() - started, watch.cut)


def _become(child: Callable[[], None]) -> None:
    """Run `child` as all that this process does; never returns."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        os.setpgid(0, 0)
        child()
        os._exit(0)
    finally:
        os._exit(1)


def _end_all(pid: int) -> None:
    """Kill and reap every process of the program; outside a jail, those of its process group."""
    try:
        if os.getpid() == 1:
            os.kill(-1, signal.SIGKILL)
        else:
            os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
