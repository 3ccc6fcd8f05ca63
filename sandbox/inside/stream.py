"""Inside the jail: run a program that reads standard input and writes standard output, once, as a script.

The program's output is its answer: what it writes to descriptor 1 goes to the host's file, by whatever means, and its
exit status is the zygote's to report. So there is nothing to forge but the output itself.
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


def run(request_fd: int, result_fd: int) -> None:
    """Serve a request as all that this process does. Without an input (None) the program is compiled alone."""
    program, text, tells_read = begin(request_fd, result_fd)
    os._exit(_run(program, text is None, tells_read))


def begin(request_fd: int, result_fd: int) -> tuple:
    """Make this process that of the program: its input, its output and its limits. What else the host's message has.

    The input takes the message's place in the file, to be read from its beginning.
    """
    message, (seconds, rlimits, recursion) = marshal.loads(
        os.pread(request_fd, os.lseek(request_fd, 0, os.SEEK_END), 0)
    )
    os.ftruncate(request_fd, 0)
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


def _run(program: str, compiles_only: bool, tells_read: bool) -> int:
    try:
        code = compile(program, "solution.py", "exec")
    except MemoryError:
        return OUT_OF_MEMORY
    except BaseException as error:  # noqa: BLE001  (whatever a program raises is its answer)
        return _failed(DOES_NOT_PARSE, error)
    return 0 if compiles_only else _execute(code, "random" in program, tells_read)


def steps_of(code: types.CodeType, reseeds: bool) -> tuple[IO[str], tuple[Callable[[], object], ...]]:
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


def _execute(code: types.CodeType, reseeds: bool, tells_read: bool) -> int:
    process = os.getpid()
    given, steps = steps_of(code, reseeds)
    for step in steps:
        try:
            step()
        except SystemExit as end:
            if type(end.code) not in (int, bool, type(None)) or end.code:
                return _failed(RAISED, end)
        except MemoryError:
            return OUT_OF_MEMORY
        except BaseException as error:  # noqa: BLE001
            return _failed(RAISED, error)
    if tells_read and os.getpid() == process:  # and not of a child, which ends here too
        _tell_read(given)
    return 0


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
        _run(_SAMPLE, compiles_only=False, tells_read=False)
    sys.stdin, sys.stdout, sys.__stdin__, sys.__stdout__, sys.modules["__main__"], sys.argv[:] = before


def _end_threads() -> None:
    """Wait for the program's threads, in one of which all of its work may be done."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()


def _call_exit_functions() -> None:
    import atexit  # noqa: PLC0415  (few programs use it)

    atexit._run_exitfuncs()


def _flush(*outputs: IO[str]) -> None:
    """Write out what is left in streams, one of which may be of the program's own making."""
    for each in outputs:
        if each is not None and not getattr(each, "closed", False):
            each.flush()


def _tell_read(given: IO[str]) -> None:
    """Report how far the program read; nothing where Python cannot know, as after a loop over lines that was left."""
    with contextlib.suppress(OSError, ValueError):
        end, told = os.fstat(1).st_size, b"%b%d" % (READ, given.tell())
        if os.pwrite(1, told, end) < len(told):  # no room is left in the file
            os.ftruncate(1, end)


def _failed(status: int, error: BaseException) -> int:
    """Puts the reason in the place of what the program wrote, if that is a file still."""
    reason = evaluation.printable(f"{type(error).__name__}: {error}")
    with contextlib.suppress(OSError):
        os.ftruncate(1, 0)
        os.pwrite(1, reason, 0)
    return status
