"""Inside the jail: load one program and evaluate expressions in its process, one line of answer each."""

import collections  # noqa: F401  (what most programs import is imported once, before the fork)
import functools
import marshal
import os
import random
import resource
import signal
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sandbox.encoding import NotPlainData, encode
from sandbox.observation import BUILTINS, observed

MAX_DETAIL = 200  # characters of an exception's text


def run(request_fd: int, result_fd: int) -> None:
    """Answer a request: first for the program's loading, then for each call."""
    program, calls, names, rlimits, load_seconds, call_seconds = read_request(request_fd)
    limit(rlimits)
    module, line = load(program, load_seconds)
    os.write(result_fd, line)
    if not line.startswith(b"="):
        return
    functions = {name: module.__dict__[name] for name in names if name in module.__dict__}
    signal.setitimer(signal.ITIMER_PROF, load_seconds)
    reseeds = "random" in program
    for call in _thunks(calls, functions):
        signal.setitimer(signal.ITIMER_PROF, call_seconds)
        if reseeds:
            reseed()
        os.write(result_fd, answer(call))


def read_request(request_fd: int) -> tuple:
    """The host's message; what the host marshals can be trusted."""
    request = marshal.loads(os.pread(request_fd, os.fstat(request_fd).st_size, 0))
    os.close(request_fd)
    return request


def limit(rlimits: Iterable[tuple[int, int]]) -> None:
    """Lower resource limits, for good."""
    for kind, value in rlimits:
        resource.setrlimit(kind, (value, value))


def load(program: str, seconds: float) -> tuple[types.ModuleType, bytes]:
    """Execute a program as the module ``solution``, within `seconds` of CPU time; the line says how it went."""
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    signal.setitimer(signal.ITIMER_PROF, seconds)
    return module, answer(lambda: exec(compile(program, "solution.py", "exec"), module.__dict__))


def answer(thunk: Callable[[], object]) -> bytes:
    """One line: a sign for the outcome, then the canonical value or the reason."""
    try:
        return b"=%b\n" % encode(thunk()).encode("ascii")
    except NotPlainData as error:
        return b"?%b\n" % printable(str(error))
    except MemoryError:
        return b"m\n"
    except BaseException as error:  # noqa: BLE001  (whatever a program raises is its answer)
        return b"!%b\n" % printable(f"{type(error).__name__}: {error}")


def printable(text: str) -> bytes:
    """`text` on one line of printable ASCII, cut to `MAX_DETAIL` characters."""
    return ascii(text[:MAX_DETAIL])[1:-1].encode("ascii")


def reseed() -> None:
    """Make programs that draw random numbers repeat themselves, whatever was called before."""
    random.seed(0)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(0)


def _thunks(calls: Sequence[str | bytes], functions: dict[str, Any]) -> Iterator[Callable[[], object]]:
    """Each call as a function without arguments, from its text or from its name and values."""
    compiled = iter(_compiled([call for call in calls if isinstance(call, str)], functions))
    for call in calls:
        yield next(compiled) if isinstance(call, str) else _bound(call, functions)


def _bound(call: bytes, functions: dict[str, Any]) -> Callable[[], object]:
    name, args, kwargs = marshal.loads(call)
    if name not in functions:
        return lambda: eval(name, {"__builtins__": {}})  # for its NameError
    return functools.partial(functions[name], *args, **kwargs)


def _compiled(calls: Sequence[str], functions: dict[str, Any]) -> Sequence[Callable[[], object]]:
    """Texts as functions. One compilation for all is what makes many calls cheap."""
    if not calls:
        return ()
    source = "(" + "".join([f"lambda:({call}\n)," for call in calls]) + ")"
    names = BUILTINS | {name: observed(function) for name, function in functions.items()}
    try:
        return eval(compile(source, "<calls>", "eval"), names)
    except (SyntaxError, MemoryError, RecursionError, ValueError):  # one bad call must not cost the others
        return [lambda call=call: eval(call, names) for call in calls]
