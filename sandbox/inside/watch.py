"""Inside the jail: the zygote's look, now and then, at how a program gets on, and the end of those whose time is up.

CPU time decides, so that busy neighbours never cost a verdict. Wall-clock time ends only what lets it pass unused, and
whatever lasts far too long in all. Nothing that a program does to its own timers, signals or answers gains it time: the
kernel's account of its process is read from outside, and only whole new lines of answer count as progress.
"""

import _signal  # type: ignore[import-not-found]
import contextlib
import os
import struct
import time

# What the host grants: CPU seconds of loading, of one call and in all; how many wall-clock seconds make up for one of
# them; idle ones of loading; the lines of answer that are expected; what the request is.
GRANT = struct.Struct("5dIB")
EVALUATION, CHECK, STREAM = range(3)

NOT_CUT, CUT_BY_CPU, CUT_BY_WALL = range(3)

PERIOD = 0.05  # seconds between two looks
# Answers are looked at here, some at a time, and overwritten: the next program, a fork, could read what is left.
# Through views: new pieces would leave holes of their sizes in the heap, by which the next program's values move.
_BYTES = bytearray(1 << 16)
_PART, _NOTHING = memoryview(_BYTES), memoryview(bytes(1 << 16))
# Share of the time that passes: a program that uses less CPU time does nothing in the rest. Few looks may find any
# work of a program that waits for its turn among busy neighbours, so that work also counts against idle time before it.
_WORKING_SHARE = 0.02


class Watch:
    def __init__(self, pid: int, result_fd: int, grant: bytes | bytearray) -> None:
        self.cut = NOT_CUT
        self._is_looking = False
        self._pid = pid
        self._result_fd = result_fd
        *seconds, self._lines_expected, _ = GRANT.unpack(grant)
        self._load, self._call, self._total, self._factor, self._most_idle_load = seconds
        self._started = self._looked = time.monotonic()
        self._lines = self._seen = 0  # lines, and the bytes that they were counted in
        self._cpu = self._cpu_at_line = self._idle = 0.0
        self._idle_load = 0.0  # of it, what the loading let pass that has ended

    def start(self) -> None:
        _signal.signal(_signal.SIGALRM, self._ring)
        _signal.setitimer(_signal.ITIMER_REAL, PERIOD, PERIOD)

    def stop(self) -> None:
        """Look no more; programs may send the signal as they like."""
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        _signal.signal(_signal.SIGALRM, _signal.SIG_IGN)

    def idle_load(self, cpu_seconds: float) -> float:
        """The idle seconds of the loading of a process that has ended, having used `cpu_seconds`.

        What it used after the last look shows that it only waited for its turn before, if it did.
        """
        if self._lines:
            return self._idle_load
        return max(0.0, self._idle - (cpu_seconds - self._cpu) / _WORKING_SHARE)

    def cut_in_all(self, cpu_seconds: float) -> int:
        """Whether and why the child was cut short, or must count as if it had been: its processes, which have ended,
        used `cpu_seconds` together, and only its own clock was watched.
        """
        granted = self._total if self._lines_expected else self._load
        return self.cut or (CUT_BY_CPU if cpu_seconds > granted else NOT_CUT)

    def _ring(self, _signal: int, _frame: object) -> None:
        if self._is_looking:  # programs ring as well, faster than a long answer is read
            return
        self._is_looking = True
        self._look()
        self._is_looking = False

    def _look(self) -> None:
        cpu, now = cpu_seconds(self._pid), time.monotonic()
        passed = min(now - self._looked, 2 * PERIOD)  # no more, or a machine that stood still would cost verdicts
        used = max(0.0, cpu - self._cpu)  # the account of a process that has gone shows 0
        self._idle = max(0.0, self._idle + passed - used / _WORKING_SHARE)
        self._cpu, self._looked = cpu, now
        is_loading = not self._lines
        if self._has_answered():
            self._idle_load += self._idle if is_loading else 0.0
            self._cpu_at_line, self._idle = cpu, 0.0
        granted, idle = (self._call, self._factor * self._call) if self._lines else (self._load, self._most_idle_load)
        if cpu - self._cpu_at_line > granted or cpu > self._total:
            self._end(CUT_BY_CPU)
        elif self._idle > idle or now - self._started > self._factor * self._total:
            self._end(CUT_BY_WALL)

    def _has_answered(self) -> bool:
        """Whether there are new lines. Bytes counted before, and lines that nobody asked for, do not count."""
        before = self._lines
        while before < self._lines_expected and (size := os.preadv(self._result_fd, [_PART], self._seen)):
            self._seen += size
            self._lines += _BYTES.count(b"\n", 0, size)
            _PART[:size] = _NOTHING[:size]
        return self._lines > before

    def _end(self, cause: int) -> None:
        self.cut = cause
        with contextlib.suppress(ProcessLookupError):  # a program can send the signal after its own end
            os.kill(self._pid, _signal.SIGKILL)


def cpu_seconds(pid: int) -> float:
    """What the threads of a process have used, by the kernel's account; 0 where the system has none."""
    try:
        return time.clock_gettime(~pid << 3 | 2)  # as libc's clock_getcpuclockid makes it
    except OSError:
        return 0.0
