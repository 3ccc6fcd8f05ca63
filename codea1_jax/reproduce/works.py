"""Commands that depend on one another, run a few at a time; what is done is never done again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.2
LAST_WORDS = 200  # characters of a failed command's last line


@dataclass(frozen=True)
class Work:
    """One `codea1` command that fills a directory.

    done: the file in the directory that the command writes last. again: what is added to the command when the
    directory already exists. needs: what must be done before.
    """

    directory: Path
    arguments: tuple[str, ...]
    done: str
    again: tuple[str, ...] = ()
    needs: tuple[Work, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether the command has run to its end."""
        return (self.directory / self.done).exists()

    @property
    def log(self) -> Path:
        """What the command says."""
        return self.directory.with_name(f"{self.directory.name}.log")

    @property
    def seconds(self) -> float | None:
        """What the command took, in one go; None if that is not known."""
        return float(self.clock.read_text()) if self.clock.exists() else None

    @property
    def clock(self) -> Path:
        """Where `seconds` are kept."""
        return self.directory.with_name(f"{self.directory.name}.seconds")


@dataclass(frozen=True)
class Running:
    """Works under way, and how many are done of all."""

    works: tuple[Work, ...]
    done: int
    total: int


def in_order(works: Iterable[Work]) -> tuple[Work, ...]:
    """Every work once, each after those it needs."""
    ordered: dict[Work, None] = {}

    def visit(work: Work) -> None:
        for needed in work.needs:
            visit(needed)
        ordered.setdefault(work)

    for work in works:
        visit(work)
    return tuple(ordered)


def run_all(works: Iterable[Work], at_once: int, tell: Callable[[Running], None]) -> None:
    """Runs what is missing, `at_once` commands at a time, each on its share of the cores.

    Whatever ends this early (an error, Ctrl-C) asks the commands under way to save and stop, and waits for them.

    Raises:
        ChildProcessError: a command failed; the message has its last line and where its log is.
    """
    ordered = in_order(works)
    waiting = [work for work in ordered if not work.finished]
    shares = _shares(sorted(os.sched_getaffinity(0)), at_once)
    running: dict[int, tuple[Work, subprocess.Popen[bytes]]] = {}
    begun: dict[Work, float] = {}
    try:
        while waiting or running:
            for share in range(at_once):
                if share not in running and (ready := _first_ready(waiting)):
                    waiting.remove(ready)
                    if not ready.directory.exists():
                        begun[ready] = time.monotonic()
                    running[share] = (ready, _start(ready, shares[share]))
            done = len(ordered) - len(waiting) - len(running)
            tell(Running(tuple(work for work, _ in running.values()), done, len(ordered)))
            time.sleep(POLL_SECONDS)
            for share, (work, process) in tuple(running.items()):
                if process.poll() is not None:
                    del running[share]
                    _check(work, process.returncode)
                    if work in begun:
                        work.clock.write_text(f"{time.monotonic() - begun[work]:.1f}\n")
    finally:
        _stop(process for _, process in running.values())
    tell(Running((), len(ordered), len(ordered)))


def _shares(cores: Sequence[int], count: int) -> list[str]:
    """The cores, dealt out to that many commands; commands share a core where there are too few."""
    hands = [cores[i::count] or [cores[i % len(cores)]] for i in range(count)]
    return [",".join(map(str, hand)) for hand in hands]


def _first_ready(waiting: Sequence[Work]) -> Work | None:
    return next((work for work in waiting if all(needed.finished for needed in work.needs)), None)


def _start(work: Work, cores: str) -> subprocess.Popen[bytes]:
    again = work.again if work.directory.exists() else ()
    work.directory.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "codea1_jax.reproduce.child", cores, *work.arguments, *again]
    with work.log.open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def _check(work: Work, code: int) -> None:
    if code == 0 and work.finished:
        return
    lines = work.log.read_text(errors="replace").strip().split("\n")
    raise ChildProcessError(
        f"{work.directory.name} ended with exit code {code}: {lines[-1][-LAST_WORDS:]} (all of it: {work.log}); "
        "the same command resumes from here"
    )


def _stop(processes: Iterator[subprocess.Popen[bytes]]) -> None:
    stopped = list(processes)
    for process in stopped:
        process.send_signal(signal.SIGTERM)
    for process in stopped:
        process.wait()
