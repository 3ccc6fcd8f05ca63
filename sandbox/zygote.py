"""What runs inside the jail: a lean interpreter that forks one child per program.

The zygote never sees a program. For each request it receives two file descriptors and forks; the child reads the
request from the first and writes its answers to the second, an ordinary memory file, so that they survive its death
and cost nobody a wake-up. The zygote watches the child's progress by the size of that file, and ends every process
of the program before it reports. Nothing here is secret: a program that rewrites all of it can only lie about its own
values.

Standard library only, and as little of it as possible: every page that is touched here is copied by every fork.
"""

import _socket
import contextlib
import gc
import os
import resource
import signal
import struct
import time
from collections.abc import Callable

from sandbox import checker, evaluation

REQUEST = struct.Struct("3dB")  # wall-clock limits in seconds: loading, one call, everything; whether it is a check
REPORT = struct.Struct("i2dB")  # wait status, CPU seconds, wall seconds, whether the zygote cut the child short
READY = b"ready"

_PATIENCE = 0.1  # seconds between two looks at a child's progress


def main(control_fd: int, preload: tuple[str, ...]) -> None:
    """Serve requests until the host closes the control socket."""
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
        data, ancillary, *_ = control.recvmsg(REQUEST.size, _socket.CMSG_SPACE(8))
        if not data:
            return
        request_fd, result_fd = struct.unpack("2i", ancillary[0][2])
        *limits, is_check = REQUEST.unpack(data)
        run = checker.run if is_check else evaluation.run

        def child(run: Callable[[int, int], None] = run, fds: tuple[int, int] = (request_fd, result_fd)) -> None:
            control.close()
            run(*fds)

        control.sendall(_supervise(child, result_fd, *limits))
        os.close(request_fd)
        os.close(result_fd)


def _supervise(
    child: Callable[[], None], result_fd: int, load_wall: float, call_wall: float, total_wall: float
) -> bytes:
    """Fork, wait within the wall-clock limits, end whatever the program left behind, and report."""
    started = moved = time.monotonic()
    size = 0
    cut = False
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    pid = os.fork()
    if pid == 0:
        _become(child)

    def look(_signal: int, _frame: object) -> None:
        nonlocal moved, size, cut
        now, written = time.monotonic(), os.fstat(result_fd).st_size
        if written != size:
            moved, size = now, written
        if now - moved > (call_wall if size else load_wall) or now - started > total_wall:
            cut = True
            with contextlib.suppress(ProcessLookupError):  # a program can send this signal after its own end
                os.kill(pid, signal.SIGKILL)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE, _PATIENCE)
    _, status = os.waitpid(pid, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    _end_all(pid)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return REPORT.pack(status, cpu_seconds, time.monotonic() - started, cut)


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
