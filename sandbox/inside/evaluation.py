"""Inside the jail: load one program and call its functions, or evaluate expressions without any program; one line of
answer each.

What is asked, an `Item`, is one of three:
- ``("call", name, arguments, exact)``: a call of the program's function. `arguments` are (args, kwargs), marshalled by
  the host or, as text, packed by an earlier answer.
- ``("expression", text, exact)``: an expression that needs no program.
- ``("view", text, value)``: an expression about a value that a program returned, as it packed it.

With `exact` the answer is the value itself, to be looked into elsewhere, else its canonical text.
"""

import collections  # noqa: F401  (what most programs import is imported once, before the fork)
import contextlib
import functools
import json
import marshal
import os
import resource
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sandbox.inside import collisions, expressions, inputs, transport
from sandbox.inside.encoding import encode
from sandbox.inside.observation import in_order
from sandbox.inside.plain import NotPlainData

MAX_DETAIL = 200  # characters of an exception's text
MAX_EXACT = 1 << 22  # characters of a value that is looked into elsewhere
RETURNED = "_returned_"  # what a view calls the value that the call returned

_GROWTH = 8  # 1/8 of its memory is what a process may have grown by before a fresh one takes over
_ASK_SECONDS = 1e-3  # from one look at the exact clock to the next: every tick
_LOOK_SECONDS = 2e-4  # nobody fills that much in less: of the least memory, 64 MB, an eighth takes four times as long

Item = tuple


def run(request_fd: int, result_fd: int) -> None:
    *question, rlimits, recursion = read_request(request_fd)
    limit(rlimits)
    sys.setrecursionlimit(recursion)
    _answer_all(result_fd, resource.getrlimit(resource.RLIMIT_AS)[0], *question)


def _answer_all(
    result_fd: int,
    memory: int,
    program: str,
    items: Sequence[Item],
    load_seconds: float,
    call_seconds: float,
    tells_inputs: bool,
) -> None:
    """A process that has grown by a part of its `memory` (bytes) leaves the rest to a fresh one: what one call has used
    up must not be missing for the next.
    """
    module, line = load(program, load_seconds) if program else (types.ModuleType("nothing"), b"=None\n")
    os.write(result_fd, line)
    if not line.startswith(b"="):
        return
    inputs_seconds = call_seconds if tells_inputs else 0.0
    reseeds = "random" in program
    most, looked = _memory_used() + (memory >> 10) // _GROWTH, time.perf_counter()
    for item in items:
        now = time.perf_counter()
        if now - looked > _LOOK_SECONDS:
            looked = now
            if _memory_used() > most:
                os.write(result_fd, b"~\n")
                return
        allow_cpu(call_seconds)
        if reseeds:
            reseed()
        os.write(result_fd, _ANSWERS[item[0]](module.__dict__, inputs_seconds, *item[1:]))


def _memory_used() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _answer_call(names: dict[str, Any], inputs_seconds: float, name: str, arguments: bytes | str, exact: bool) -> bytes:
    """The answer of a call; with its inputs, unless `inputs_seconds` is 0: the CPU time for both, by an exact clock."""
    started = time.process_time()
    if name not in names:
        return b"!NameError: name %b is not defined\n" % printable(repr(name))
    function = names[name]
    show = _exact if exact else encode
    which = _inputs(function, arguments) if inputs_seconds else None
    line = answer(functools.partial(_call, function, arguments), show)
    if which is None or not line.startswith((b"=", b"@")):
        return line
    signal.setitimer(signal.ITIMER_PROF, 0)
    seconds_left = max(0.0, inputs_seconds - (time.process_time() - started)) / 2
    return line[:-1] + b"\t" + _identity(which, function, line, show, seconds_left) + b"\n"


def _call(function: Any, arguments: bytes | str) -> object:
    args, kwargs = _values(arguments)
    return function(*args, **kwargs)


def _values(arguments: bytes | str) -> tuple[tuple, dict[str, Any]]:
    return marshal.loads(arguments) if isinstance(arguments, bytes) else transport.unpack(json.loads(arguments))


def _inputs(function: Any, arguments: bytes | str) -> inputs.Inputs | None:
    try:
        return inputs.Inputs(function, lambda: _values(arguments))
    except NotPlainData:
        return None


def _identity(
    which: inputs.Inputs, function: Any, line: bytes, show: Callable[[object], str], seconds_left: float
) -> bytes:
    """What distinguishes a call's inputs from others, found by more calls within `seconds_left` of CPU time.

    The timer counts whole ticks, too few or too many where others run; so it only has the exact clock asked again.
    """
    if not which.has_plainer:
        return which.identity(lambda _: False).encode("ascii")

    end, over = time.process_time() + seconds_left, False

    def stop(*_signal: object) -> None:
        nonlocal over
        if not over and time.process_time() >= end:
            over = True
            raise TimeoutError

    def done(arguments: inputs.Arguments) -> tuple[bytes, int] | None:
        if over:
            return None
        args, kwargs = arguments
        path = inputs.Path()
        with contextlib.suppress(TimeoutError):
            stop()
            signal.setitimer(signal.ITIMER_PROF, _ASK_SECONDS, _ASK_SECONDS)
            again = answer(lambda: path.of(lambda: function(*args, **kwargs)), show)
            signal.setitimer(signal.ITIMER_PROF, 0)
            return None if over else (again, path.taken)
        return None

    signal.signal(signal.SIGPROF, stop)
    usual = done(which.load())
    does_the_same = lambda arguments: usual is not None and usual[0] == line and done(arguments) == usual  # noqa: E731
    same = which.identity(does_the_same).encode("ascii")
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    return same


def _answer_expression(_names: object, _seconds: object, text: str, exact: bool) -> bytes:
    names = expressions.names(is_view=False)
    if exact:
        return answer(lambda: collisions.checked(eval(text, names)), _exact)
    return answer(lambda: eval(text, names))


def _answer_view(_names: object, inputs_seconds: float, text: str, value: str) -> bytes:
    """The answer of a view; of a reference's call none that depends on the order of a dict or set."""

    def seen(turn: int) -> bytes:
        names = expressions.names(True, turn)
        return answer(lambda: eval(text, names | {RETURNED: in_order(transport.unpack(json.loads(value)), turn)}))

    line = seen(0)
    return line if not inputs_seconds or seen(1) == line else b"?something that depends on the order of a dict or set\n"


_ANSWERS: dict[str, Callable[..., bytes]] = {
    "call": _answer_call,
    "expression": _answer_expression,
    "view": _answer_view,
}


def _exact(value: object) -> str:
    text = json.dumps(transport.pack(value))
    if len(text) > MAX_EXACT:
        raise NotPlainData("too long to be looked into")
    return text


_SAMPLE = """
from typing import List
import math

def f(numbers: List[int], name: str, k: float) -> dict:
    counts = {}
    for c in name:
        counts[c] = counts.get(c, 0) + 1
    return {"sorted": sorted(numbers), "counts": counts, "root": math.sqrt(k), "pair": (None, True)}
"""
_SAMPLE_CALLS = 16  # Python looks at functions for some calls before it specializes them


def rehearse() -> None:
    """Call a sample program before any fork: specialized code and filled caches would be copied by each fork."""
    arguments = marshal.dumps((([3, 2], "aba", 2.0), {}))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    _answer_all(nowhere, 1 << 30, _SAMPLE, [("call", "f", arguments, False)] * _SAMPLE_CALLS, 0.0, 0.0, False)
    os.close(nowhere)
    del sys.modules["solution"]


def read_request(request_fd: int) -> tuple:
    request = marshal.loads(os.pread(request_fd, os.lseek(request_fd, 0, os.SEEK_END), 0))
    os.close(request_fd)
    return request


def limit(rlimits: Iterable[tuple[int, int]]) -> None:
    """The hard limit of CPU time is a second later: where both are the same the kernel sends SIGKILL."""
    for kind, value in rlimits:
        hard = value + (kind == resource.RLIMIT_CPU)
        resource.setrlimit(kind, (value, hard))


def allow_cpu(seconds: float) -> None:
    """Have this process killed by SIGPROF once it has used `seconds` of CPU time, or somewhat more.

    For this timer, as for RLIMIT_CPU, the kernel counts whole ticks in which it found the process running; on a busy
    machine it counted up to a sixth more than was used. The zygote's watch reads an exact clock and decides.
    """
    signal.setitimer(signal.ITIMER_PROF, 1.5 * seconds)


def load(program: str, seconds: float) -> tuple[types.ModuleType, bytes]:
    """Execute a program as the module ``solution``, within `seconds` of CPU time; the line reports how it went."""
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    allow_cpu(seconds)
    return module, answer(lambda: exec(compile(program, "solution.py", "exec"), module.__dict__))


def answer(thunk: Callable[[], object], show: Callable[[object], str] = encode) -> bytes:
    """One line: a sign for the outcome, then the value as `show` writes it, or the reason."""
    sign = b"@" if show is _exact else b"="
    try:
        return sign + show(thunk()).encode("ascii") + b"\n"
    except NotPlainData as error:
        return b"?%b\n" % printable(str(error))
    except MemoryError:
        return b"m\n"
    except BaseException as error:  # noqa: BLE001  (whatever a program raises is its answer)
        return b"!%b\n" % printable(f"{type(error).__name__}: {error}")


def printable(text: str) -> bytes:
    return ascii(text[:MAX_DETAIL])[1:-1].encode("ascii")


def reseed() -> None:
    """Make programs that draw random numbers repeat themselves, whatever was called before."""
    import random  # noqa: PLC0415  (the zygote has imported it, without its hook: see `sandbox.inside.zygote`)

    random.seed(0)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(0)
