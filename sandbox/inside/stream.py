"""Inside the jail: run a program that reads standard input and writes standard output, once, as a script.

The program's output is its answer: what it writes to descriptor 1 goes to the host's file, by whatever means, and its
exit status is the zygote's to report. So there is nothing to forge but the output itself. For who wants to see what a
script prints, it ends as under `python solution.py`, and what it writes to descriptor 2 is put behind its output.
"""

import contextlib
import marshal
import os
import sys
import types
from collections.abc import Callable
from typing import IO

from sandbox.inside import evaluation

RAISED, OUT_OF_MEMORY, DOES_NOT_PARSE = 1, 2, 3  # exit statuses; a program that uses them harms itself alone
READ = b"\0read "  # after a reference's output: how many bytes of its input it read
ERRORS = b"\0errors "  # behind both outputs: how many bytes of them are those of descriptor 2
STDIN = "/dev/stdin"  # which programs may open by this name
_ROOM = 1 << 23  # bytes of the programs' folder that an input may take
MAX_ERRORS = 1 << 16  # bytes, the last ones


def run(request_fd: int, result_fd: int) -> None:
    """Serve a request as all that this process does. Without an input (None) the program is compiled alone."""
    program, text, tells_read, shows_errors = _begin(request_fd, result_fd)
    process = os.getpid()
    errors = _open_errors() if shows_errors else None
    status, given = _run(program, text is None, shows_errors)
    if errors:
        with contextlib.suppress(Exception):
            errors.flush()
    if os.getpid() == process:  # and not a child of it, which ends here too
        if errors:
            _add_errors()
        elif tells_read and given and not status:
            _tell_read(given)
    os._exit(status)


def _begin(request_fd: int, result_fd: int) -> tuple:
    """Make this process that of the program: its input, its output and its limits. What else the host's message has.

    The input takes the message's place in the file, to be read from its beginning.
    """
    message, (seconds, rlimits, recursion) = marshal.loads(
        os.pread(request_fd, os.lseek(request_fd, 0, os.SEEK_END), 0)
    )
    os.ftruncate(request_fd, 0)
    if STDIN in message[0] and os.path.islink(STDIN) and not os.path.exists(STDIN):
        _put(message[1] or b"", os.readlink(STDIN))
    os.pwrite(request_fd, message[1] or b"", 0)
    os.lseek(request_fd, 0, os.SEEK_SET)
    os.dup2(request_fd, 0)
    os.dup2(result_fd, 1)
    os.close(request_fd)
    os.close(result_fd)
    evaluation.limit(rlimits)
    sys.setrecursionlimit(recursion)
    evaluation.allow_cpu(seconds)
    return message


def _put(text: bytes, name: str) -> None:
    """Have the text read under the name: of a jail, which has no /proc for its input to be found in.

    Where the folder has no room for it, a process writes it into a pipe, a new one for whoever opens it next.
    """
    if len(text) <= _ROOM:
        with open(name, "wb") as file:
            file.write(text)
        return
    os.mkfifo(name)
    is_writer = os.fork() == 0
    while is_writer:
        with contextlib.suppress(OSError), open(name, "wb") as file:
            os.mkfifo(f"{name}-next")
            os.rename(f"{name}-next", name)
            file.write(text)


def _run(program: str, compiles_only: bool, shows_errors: bool) -> tuple[int, IO[str] | None]:
    end = _show if shows_errors else _fail
    try:
        code = compile(program, "solution.py", "exec")
    except BaseException as error:  # noqa: BLE001  (whatever a program raises is its answer)
        return end(error, own_frames=1), None
    if compiles_only:
        return 0, None
    status = 0
    given, steps = _steps_of(code, "random" in program)
    for step in steps:
        try:
            step()
        except BaseException as error:  # noqa: BLE001
            status = end(error, own_frames=2)
            if status and not shows_errors:  # what is left of the output would follow the reason
                break
    return status, given


def _steps_of(code: types.CodeType, reseeds: bool) -> tuple[IO[str], tuple[Callable[[], object], ...]]:
    """A script's standard input, and what Python does with a script: executes it, and all that follows at its end."""
    main = types.ModuleType("__main__")
    vars(main).update(exit=sys.exit, quit=sys.exit)
    sys.modules["__main__"] = main
    sys.argv[:] = ["solution.py"]
    given = sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  (ends with the process)
    output = sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if reseeds:
        evaluation.reseed()
    ends = (_end_threads, _call_exit_functions, lambda: _flush(sys.stdout, output), vars(main).clear)
    return given, (lambda: exec(code, vars(main)), *ends, lambda: _flush(output))


_SAMPLE = """
import sys
from collections import defaultdict

def main():
    words = sys.stdin.read().split()
    numbers = list(map(int, words[:1] or ["3"]))
    counts = defaultdict(int)
    for number in sorted(numbers):
        counts[number] += 1
    print(*counts, sum(numbers), max(numbers), f"{1 / 3:.2f}")

if __name__ == "__main__":
    main()
"""
_SAMPLE_RUNS = 16  # as many as `evaluation.rehearse` makes


def rehearse() -> None:
    before = sys.stdin, sys.stdout, sys.__stdin__, sys.__stdout__, sys.modules["__main__"], sys.argv[:]
    for _ in range(_SAMPLE_RUNS):
        _run(_SAMPLE, compiles_only=False, shows_errors=False)
    sys.stdin, sys.stdout, sys.__stdin__, sys.__stdout__, sys.modules["__main__"], sys.argv[:] = before


def _end_threads() -> None:
    """Wait for the program's threads, in one of which all of its work may be done."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()


def _call_exit_functions() -> None:
    import atexit  # noqa: PLC0415  (few programs use it)

    atexit._run_exitfuncs()


def _flush(*outputs: IO[str]) -> None:
    for each in outputs:
        if each is not None and not getattr(each, "closed", False):
            each.flush()


def _tell_read(given: IO[str]) -> None:
    """Report how far the program read; nothing where Python cannot know, as after a loop over lines that was left."""
    with contextlib.suppress(OSError, ValueError):
        end, told = os.fstat(1).st_size, b"%b%d" % (READ, given.tell())
        if os.pwrite(1, told, end) < len(told):  # no room is left in the file
            os.ftruncate(1, end)


def _fail(error: BaseException, own_frames: int) -> int:
    """Puts the reason in the place of what the program wrote, if that is a file still; the exit status."""
    is_parsed = own_frames == 2
    if isinstance(error, MemoryError):
        return OUT_OF_MEMORY
    if is_parsed and isinstance(error, SystemExit) and type(error.code) in (int, bool, type(None)) and not error.code:
        return 0
    reason = evaluation.printable(f"{type(error).__name__}: {error}")
    with contextlib.suppress(OSError):
        os.ftruncate(1, 0)
        os.pwrite(1, reason, 0)
    return RAISED if is_parsed else DOES_NOT_PARSE


def _show(error: BaseException, own_frames: int) -> int:
    """Prints an exception to standard error, without the frames of this module; the exit status, as Python's."""
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        with contextlib.suppress(Exception):
            print(error.code, file=sys.stderr)
        return 1
    trace = error.__traceback__
    for _ in range(own_frames):
        trace = trace.tb_next if trace else None
    with contextlib.suppress(BaseException):
        sys.__excepthook__(type(error), error.with_traceback(trace), trace)
    return 1


def _open_errors() -> IO[str]:
    name = f"/tmp/errors-{os.getpid()}"
    os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), 2)
    os.unlink(name)
    sys.stderr = sys.__stderr__ = open(  # noqa: SIM115  (ends with the process)
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    return sys.stderr


def _add_errors() -> None:
    with contextlib.suppress(OSError):
        size, end = os.fstat(2).st_size, os.fstat(1).st_size
        errors = os.pread(2, MAX_ERRORS, max(0, size - MAX_ERRORS))
        added = b"%b%b%d" % (errors, ERRORS, len(errors))
        if os.pwrite(1, added, end) < len(added):
            os.ftruncate(1, end)
