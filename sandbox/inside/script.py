"""Inside the jail: run a script once as `python solution.py` does, for who wants to see what it prints.

What it writes to descriptor 1 goes to the host's file; what it writes to descriptor 2 is put behind that when it ends
by itself. Neither is evidence: a program prints what it likes.
"""

import contextlib
import os
import sys

from sandbox.inside import stream

ERRORS = b"\0errors "  # behind both outputs: how many bytes of them are those of descriptor 2
MAX_ERRORS = 1 << 16  # bytes, the last ones


def run(request_fd: int, result_fd: int) -> None:
    program, _ = stream.begin(request_fd, result_fd)
    name = f"/tmp/errors-{os.getpid()}"
    os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), 2)
    os.unlink(name)
    process = os.getpid()
    status = _status(program)
    if os.getpid() == process:  # and not a child of it, which ends here too
        _add_errors()
    os._exit(status)


def _status(program: str) -> int:
    """The exit status of a script, whose failures are shown as Python shows them."""
    errors = sys.stderr = sys.__stderr__ = open(  # noqa: SIM115  (ends with the process)
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    status = 0
    try:
        code = compile(program, "solution.py", "exec")
    except BaseException as error:  # noqa: BLE001  (whatever a program raises is shown)
        return _shown(error, own_frames=1)
    for step in stream.steps_of(code, "random" in program)[1]:
        try:
            step()
        except SystemExit as end:
            status = _exit_status(end.code)
        except BaseException as error:  # noqa: BLE001
            status = _shown(error, own_frames=2)
    with contextlib.suppress(Exception):
        errors.flush()
    return status


def _exit_status(code: object) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    with contextlib.suppress(Exception):
        print(code, file=sys.stderr)
    return 1


def _shown(error: BaseException, own_frames: int) -> int:
    """Prints an exception to standard error, without the frames of this module; the exit status that it means."""
    trace = error.__traceback__
    for _ in range(own_frames):
        trace = trace.tb_next if trace else None
    with contextlib.suppress(BaseException):
        sys.__excepthook__(type(error), error.with_traceback(trace), trace)
    return 1


def _add_errors() -> None:
    """Puts what was written to descriptor 2 behind the output, if there is room."""
    with contextlib.suppress(OSError):
        size, end = os.fstat(2).st_size, os.fstat(1).st_size
        errors = os.pread(2, MAX_ERRORS, max(0, size - MAX_ERRORS))
        added = b"%b%b%d" % (errors, ERRORS, len(errors))
        if os.pwrite(1, added, end) < len(added):
            os.ftruncate(1, end)
