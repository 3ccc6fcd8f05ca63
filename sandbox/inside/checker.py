"""Inside the jail: run a dataset's own check code against one program.

Two processes: the *program's* executes the program; the *judge's*, which the program cannot touch, writes the verdict.
Normally the check runs *isolated*, in the judge's process, and each call of the program is carried over as plain data:
expected values never enter the program's process, and an object with its own ``__eq__``, an early exit or a printed
marker is worth nothing. Arguments that the program changes in place also change for the check.

A check that needs the program's real objects (classes, arrays, patched modules) can run *in process*, in the program's
own. That is weaker: the program cannot read the check or the secret while it loads, its printing and its exits
still count for nothing, and what its entry point returns is refused if the program defined its equality; but code that
the program left behind (a patched library, a thread) can change how the check runs, or find the secret and lie.
"""

import builtins
import json
import os
import signal
import sys
import types
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, NoReturn

from sandbox.inside import evaluation, transport
from sandbox.inside.check_code import CHECK_FILE, run_check
from sandbox.inside.guard import ENDS_OF_LOOPS, guarded, is_honest
from sandbox.inside.plain import NotPlainData
from sandbox.inside.watch import cpu_seconds

CANNOT_START = 3  # exit status of the judge's process, which no program can give it
PASSED, FAILED, RAISED, TIMED_OUT, OUT_OF_MEMORY, CRASHED, NOT_PLAIN_DATA = "pf!tmc?"

_MOST_PARTS, _MOST_CHARACTERS = 12, 80  # of a value that a detail shows
_TIME_SIGNALS = (signal.SIGPROF, signal.SIGXCPU, signal.SIGALRM, signal.SIGVTALRM)


def run(request_fd: int, result_fd: int) -> None:
    """Answer a check request with two lines: the program's loading, and the verdict."""
    try:
        program_process = _Program(request_fd, result_fd)  # forked before this process reads the request
    except OSError:
        os._exit(CANNOT_START)
    request = evaluation.read_request(request_fd)
    program, check, entry_point, in_process, rlimits, load_seconds, call_seconds, check_seconds = request
    evaluation.limit(rlimits)
    evaluation.allow_cpu(check_seconds)
    failure = program_process.load(program, rlimits, load_seconds, call_seconds)
    os.write(result_fd, _line(failure or "=None"))
    if failure:
        return
    if in_process:
        verdict = program_process.check_in_process(check, entry_point, check_seconds)
    else:
        verdict = program_process.check_isolated(check, entry_point)
    os.write(result_fd, _line(verdict))


class _End(BaseException):
    """The check cannot continue: how it ends is decided. No check code can catch it for good."""


class _Opaque:
    """Stands for a value that is not plain data: it has the program's word for its truth, and equals nothing."""

    def __init__(self, kind: str, truth: bool) -> None:
        self._kind = kind
        self._truth = truth

    def __bool__(self) -> bool:
        return self._truth

    def __repr__(self) -> str:
        return f"<a value of type {self._kind}>"


class _Program:
    def __init__(self, *private_fds: int) -> None:
        inbox, self._to = os.pipe()
        self._from, outbox = os.pipe()
        self._end: str | None = None
        self._names: list[str] = []
        self._opaque: str | None = None
        self._call_seconds = 0.0
        self._last = ""  # call, and what it gave
        self._pid = os.fork()
        if self._pid == 0:
            try:
                for fd in (*private_fds, self._to, self._from):
                    os.close(fd)
                _serve(inbox, outbox)
            finally:
                os._exit(1)
        os.close(inbox)
        os.close(outbox)

    def load(self, program: str, rlimits: tuple, load_seconds: float, call_seconds: float) -> str | None:
        self._call_seconds = call_seconds
        try:
            line, names = self._ask([program, rlimits, load_seconds, call_seconds], load_seconds)
        except _End:
            return self._end
        except (TypeError, ValueError):
            return CRASHED + "malformed answer"
        self._names = [name for name in names if isinstance(name, str) and not hasattr(builtins, name)]
        return None if line == "=None" else str(line)

    def check_isolated(self, check: str, entry_point: str) -> str:
        solution = types.ModuleType("solution")
        solution.__getattr__ = self._stand_in  # type: ignore[method-assign]
        sys.modules["solution"] = solution
        names = {name: self._stand_in(name) for name in [*self._names, entry_point] if not name.startswith("__")}
        verdict = _verdict(lambda: run_check(check, names[entry_point], names), self._circumstances)
        if self._opaque is not None and verdict != PASSED:
            return f"{NOT_PLAIN_DATA}a value of type {self._opaque}"
        return self._end or verdict

    def _circumstances(self, error: AssertionError) -> list[str]:
        return [self._last, *_failed_in(error.__traceback__)]

    def check_in_process(self, check: str, entry_point: str, seconds: float) -> str:
        """Have the check run in the program's process, and believe only a reply that knows the secret."""
        secret = os.urandom(16).hex()
        try:
            reply = self._ask(["check", secret, check, entry_point, seconds], seconds)
        except _End:
            return str(self._end)
        if isinstance(reply, list) and len(reply) == 2 and isinstance(reply[0], str) and reply[0] == secret:
            return str(reply[1])
        return CRASHED + "a verdict without the secret"

    def _stand_in(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(name, args, kwargs)

        call.__name__ = name
        return call

    def _call(self, name: str, args: tuple, kwargs: dict) -> Any:
        """Make one call: what it returned; raises an exception like the one that it raised."""
        arguments = [*map(_short, args), *(f"{key}={_short(value)}" for key, value in kwargs.items())]
        self._last = f"after {name}({', '.join(arguments)})"
        reply = self._ask(["call", name, list(args), kwargs], self._call_seconds)
        error = None
        try:
            kind, content, changed = reply
            if kind == "value":
                self._last += f" gave {_short(content)}"
                for old, new in zip(args, changed, strict=False):
                    _change(old, new)
                return content
            if kind == "opaque":
                type_name, truth = content
                self._opaque = str(type_name)
                return _Opaque(self._opaque, bool(truth))
            if kind == "raised":
                error_name, base, text = map(str, content)
                error = _exception(error_name, base, text)
        except (ValueError, TypeError) as malformed:
            self._stop(f"{CRASHED}malformed answer: {malformed}")
        if error is not None:
            raise error
        self._stop(OUT_OF_MEMORY if kind == "out of memory" else f"{CRASHED}malformed answer")

    def _ask(self, message: list, seconds: float) -> Any:
        start = cpu_seconds(self._pid)
        end, reply = "", None
        try:
            transport.send(self._to, message)
            reply = transport.receive(self._from)
        except NotPlainData as error:
            end = f"{NOT_PLAIN_DATA}an argument is {error}"
        except (OSError, transport.Malformed) as error:
            end = f"{CRASHED}{error}"
        except MemoryError:  # this process may hold no more than the program's
            end = OUT_OF_MEMORY
        if end:  # raised here, so that the stack of a MemoryError does not keep what has used the memory up
            self._stop(end)
        if cpu_seconds(self._pid) - start > seconds:  # whatever it did to its own timers
            self._stop(f"{TIMED_OUT}CPU time")
        if reply is None:
            self._stop(death(os.waitpid(self._pid, 0)[1]))
        return reply

    def _stop(self, end: str) -> NoReturn:
        self._end = self._end or end
        raise _End


def _serve(inbox: int, outbox: int) -> None:
    program, rlimits, load_seconds, call_seconds = transport.receive(inbox)
    evaluation.limit(rlimits)
    module, line = evaluation.load(program, load_seconds)
    transport.send(outbox, [line.decode("ascii").rstrip(), list(_functions(module))])
    while message := transport.receive(inbox):
        if message[0] == "call":
            evaluation.allow_cpu(call_seconds)
            _answer_call(outbox, module, *message[1:])
        else:
            _, secret, check, entry_point, seconds = message
            evaluation.allow_cpu(seconds)
            transport.send(outbox, [secret, _verdict(lambda: _check_here(module, check, entry_point))])  # noqa: B023


def _check_here(module: types.ModuleType, check: str, entry_point: str) -> None:
    candidate = guarded(module, entry_point)
    # Benchmarks execute both as one module: their tests use what the question imports, and its constants.
    constants = {name: value for name, value in _names(module).items() if is_honest(value)}
    run_check(check, candidate, {**constants, **_functions(module), entry_point: candidate})


def _functions(module: types.ModuleType) -> dict[str, Any]:
    return {name: value for name, value in _names(module).items() if callable(value)}


def _names(module: types.ModuleType) -> dict[str, Any]:
    return {
        name: value for name, value in vars(module).items() if not name.startswith("__") and not hasattr(builtins, name)
    }


def _answer_call(outbox: int, module: types.ModuleType, name: str, args: list, kwargs: dict) -> None:
    """Make one call, and send what came of it: its value, with the arguments where the call has changed them."""
    before = _content(args)
    try:
        value = transport.drained(getattr(module, name)(*args, **kwargs))
        try:
            reply = ["value", value, args if _content(args) != before else []]
            transport.send(outbox, reply)
            return
        except NotPlainData:
            reply = ["opaque", [type(value).__name__, bool(value)], []]
    except MemoryError:
        reply = ["out of memory", None, []]
    except BaseException as error:  # noqa: BLE001  (whatever a program raises is its answer)
        base = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
        reply = ["raised", [type(error).__name__, base.__name__, str(error)[: evaluation.MAX_DETAIL]], []]
    transport.send(outbox, reply)


def _content(args: list) -> str:
    return json.dumps(transport.pack(args, drains=False))


def _verdict(check: Callable[[], None], describe: Callable[[AssertionError], list[str]] = lambda _: []) -> str:
    """describe: what the detail of a failed check adds to its message."""
    try:
        check()
    except AssertionError as error:
        return FAILED + "; ".join(filter(None, (str(error), *describe(error))))
    except MemoryError:
        return OUT_OF_MEMORY
    except BaseException as error:  # noqa: BLE001  (a check may raise anything)
        return f"{RAISED}{type(error).__name__}: {error}"
    return PASSED


def _short(value: Any, depth: int = 3) -> str:
    """Plain data as Python writes it, in part where it is long; all else by its type: its own words may be anything."""
    kind = type(value)
    if kind in (str, bytes):
        return repr(value[:_MOST_CHARACTERS])
    if kind in (list, tuple, dict, set) and depth:
        parts = [_short(part, depth - 1) for part in islice(value, _MOST_PARTS)]
        if kind is dict:
            parts = [f"{part}: {_short(each, depth - 1)}" for part, each in zip(parts, value.values(), strict=False)]
        inner = ", ".join([*parts, *(["..."] if len(value) > len(parts) else [])])
        return {list: f"[{inner}]", tuple: f"({inner}{',' * (len(value) == 1)})"}.get(kind, f"{{{inner}}}")
    if kind in (float, bool, type(None)) or (kind is int and abs(value) < 10**_MOST_CHARACTERS):
        return repr(value)
    return f"<{kind.__name__}>"


def _failed_in(trace: types.TracebackType | None) -> list[str]:
    """The check's innermost function and its arguments, where it has any but functions."""
    found: list[str] = []
    while trace is not None:
        code, values = trace.tb_frame.f_code, trace.tb_frame.f_locals
        if code.co_filename == CHECK_FILE:
            names = [name for name in code.co_varnames[: code.co_argcount] if not callable(values.get(name))]
            shown = ", ".join(f"{name}={_short(values[name])}" for name in names if name in values)
            found = [f"{code.co_name}({shown})"] if shown else []
        trace = trace.tb_next
    return found


def _exception(name: str, base: str, text: str) -> Exception:
    kind = getattr(builtins, base, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        kind = Exception
    if issubclass(kind, ENDS_OF_LOOPS):
        return RuntimeError(f"the program raised {name}: {text}")
    if name != base or issubclass(kind, UnicodeError):  # whose own classes want five parts, not one text
        kind = type(name, (kind,), {"__init__": lambda self, text: None, "__str__": lambda self: self.args[0]})
    return kind(text)


def _change(old: Any, new: Any) -> None:
    if type(old) is not type(new):
        return
    if isinstance(old, list | bytearray):
        old[:] = new
    elif isinstance(old, dict | set):
        old.clear()
        old.update(new)
    elif isinstance(old, deque):
        old.clear()
        old.extend(new)
    elif type(old).__name__ == "ndarray" and old.shape == new.shape:
        old[...] = new


def death(status: int) -> str:
    """How a process with this wait status has ended, as a line of answer. The host uses it as well."""
    number = status & 0x7F
    if number in _TIME_SIGNALS:
        return f"{TIMED_OUT}CPU time"
    return CRASHED + (f"signal {number}" if number else f"exit status {status >> 8}")


def _line(text: str) -> bytes:
    return text[:1].encode("ascii") + evaluation.printable(text[1:]) + b"\n"
