"""What runs inside the jail: a lean interpreter that forks one child per program.

The zygote never sees a program. For each request it receives two file descriptors and forks; the child
reads the request from the first, and writes one line per call to the second, an ordinary memory file, so
that answers survive its death and cost nobody a wake-up. The zygote watches the child's progress by the
size of that file, and ends every process of the program before it reports. Nothing here is secret: a
program that rewrites all of it can only lie about its own values.

Standard library only, and as little of it as possible: every page that is touched here is copied by every
fork.
"""

import _socket
import collections  # noqa: F401
import gc
import marshal
import os
import random
import resource
import signal
import struct
import sys
import time
import types
import typing  # noqa: F401
from collections.abc import Callable, Sequence

from sandbox.encoding import NotPlainData, encode

REQUEST = struct.Struct("3d")  # wall-clock limits in seconds: loading, one call, everything
REPORT = struct.Struct(
    "i2dB"
)  # wait status, CPU seconds, wall seconds, whether the zygote cut the child short
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
        fds = struct.unpack("2i", ancillary[0][2])
        control.sendall(_supervise(control, *fds, REQUEST.unpack(data)))
        for fd in fds:
            os.close(fd)


def _supervise(control: _socket.socket, request_fd: int, result_fd: int, limits: tuple[float, ...]) -> bytes:
    """Fork, wait within the wall-clock limits, end whatever the program left behind, and report."""
    started = moved = time.monotonic()
    load_wall, call_wall, total_wall = limits
    size = 0
    cut = False
    pid = os.fork()
    if pid == 0:
        try:
            _child(control, request_fd, result_fd)
        finally:
            os._exit(1)

    def look(_signal: int, _frame: object) -> None:
        nonlocal moved, size, cut
        now, written = time.monotonic(), os.fstat(result_fd).st_size
        if written != size:
            moved, size = now, written
        if now - moved > (call_wall if size else load_wall) or now - started > total_wall:
            cut = True
            os.kill(pid, signal.SIGKILL)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE, _PATIENCE)
    _, status, usage = os.wait4(pid, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    _end_all(pid)
    return REPORT.pack(status, usage.ru_utime + usage.ru_stime, time.monotonic() - started, cut)


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


def _child(control: _socket.socket, request_fd: int, result_fd: int) -> None:
    """Run one program and its calls. Never returns."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    control.close()
    os.setpgid(0, 0)
    request = marshal.loads(os.pread(request_fd, os.fstat(request_fd).st_size, 0))
    os.close(request_fd)
    program, calls, names, rlimits, load_seconds, call_seconds = request
    for kind, limit in rlimits:
        resource.setrlimit(kind, (limit, limit))
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    signal.setitimer(signal.ITIMER_PROF, load_seconds)
    line = _answer(lambda: exec(compile(program, "solution.py", "exec"), module.__dict__))
    os.write(result_fd, line)
    if line.startswith(b"="):
        namespace = {name: module.__dict__[name] for name in names if name in module.__dict__}
        signal.setitimer(signal.ITIMER_PROF, load_seconds)
        _answer_calls(_compiled(calls, namespace), "random" in program, call_seconds, result_fd)
    os._exit(0)


def _answer_calls(
    calls: Sequence[Callable[[], object]], reseed: bool, seconds: float, result_fd: int
) -> None:
    for call in calls:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        if reseed:
            _reseed()
        os.write(result_fd, _answer(call))


def _compiled(calls: tuple[str, ...], namespace: dict) -> Sequence[Callable[[], object]]:
    """The calls as functions. One compilation for all is what makes many calls cheap."""
    source = "(" + "".join([f"lambda:({call}\n)," for call in calls]) + ")"
    try:
        return eval(compile(source, "<calls>", "eval"), namespace)
    except (
        SyntaxError,
        MemoryError,
        RecursionError,
        ValueError,
    ):  # one call that cannot be compiled must not cost the others
        return [lambda call=call: eval(call, namespace) for call in calls]


def _answer(thunk: Callable[[], object]) -> bytes:
    """One line: a sign for the outcome, then the canonical value or the reason."""
    try:
        return b"=%b\n" % encode(thunk()).encode("ascii")
    except NotPlainData as error:
        return b"?%b\n" % _printable(str(error))
    except MemoryError:
        return b"m\n"
    except BaseException as error:  # noqa: BLE001  (whatever a program raises is its answer)
        return b"!%b\n" % _printable(f"{type(error).__name__}: {error}")


def _printable(text: str) -> bytes:
    return ascii(text[:200])[1:-1].encode("ascii")


def _reseed() -> None:
    """Make programs that draw random numbers repeat themselves, whatever was called before."""
    random.seed(0)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(0)
