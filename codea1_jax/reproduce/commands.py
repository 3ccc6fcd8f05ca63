"""Commands that depend on one another, run a few at a time; what is done is never done again.

A command is done when the file that it writes last exists, so the list may be stopped at any moment, even by SIGKILL,
and resumed by the same `codea1 reproduce`.
"""

import fcntl
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

POLL_SECONDS = 0.2
SUMMARY = "summary.json"  # what a run and an evaluation write last
LAST_WORDS = 200  # characters of a failed command's last line

Kind = Literal["preparation", "training", "evaluation"]
Words = tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """One command line that fills a directory.

    words: what a person would type; the first is `codea1` or `python`. done: the file in the directory that the command
    writes last. again: what is added to the command when the directory already exists. needs: what must be done before.
    """

    directory: Path
    words: Words
    done: str
    kind: Kind
    again: Words = ()
    needs: "tuple[Command, ...]" = ()

    def __str__(self) -> str:
        return shlex.join(self.words)

    @property
    def finished(self) -> bool:
        return (self.directory / self.done).exists()

    @property
    def log(self) -> Path:
        return self.directory.with_name(f"{self.directory.name}.log")


Needs = tuple[Command, ...]


def train(directory: Path, preset: str, overrides: Words, needs: Needs) -> Command:
    words = ("codea1", "train", preset, *overrides, f"run.directory={directory}")
    return Command(directory, words, SUMMARY, "training", ("--resume",), needs)


def evaluate(directory: Path, kind: str, data: str, options: Words, needs: Needs) -> Command:
    words = ("codea1", "eval", kind, "--data", data, *options, "--out", str(directory))
    return Command(directory, words, SUMMARY, "evaluation", needs=needs)


OnProgress = Callable[[int, Sequence[Command]], None]  # (how many are done, those under way) ->


def in_order(commands: Iterable[Command]) -> tuple[Command, ...]:
    ordered: dict[Command, None] = {}

    def visit(command: Command) -> None:
        for needed in command.needs:
            visit(needed)
        ordered.setdefault(command)

    for command in commands:
        visit(command)
    return tuple(ordered)


def run_all(commands: Iterable[Command], at_once: int, on_progress: OnProgress) -> None:
    """Runs what is missing, `at_once` commands at a time, each on its share of the cores.

    Whatever ends this early (an error, Ctrl-C) asks the commands under way to save and stop, and waits for them.

    Raises ChildProcessError if a command fails; the message has its last line and where its log is.
    """
    ordered = in_order(commands)
    waiting = [command for command in ordered if not command.finished]
    shares = _shares(sorted(os.sched_getaffinity(0)), at_once)
    running: dict[int, tuple[Command, subprocess.Popen[bytes]]] = {}
    try:
        while waiting or running:
            for share in range(at_once):
                ready = next((each for each in waiting if all(needed.finished for needed in each.needs)), None)
                if share not in running and ready is not None:
                    waiting.remove(ready)
                    running[share] = (ready, _start(ready, shares[share]))
            under_way = [command for command, _ in running.values()]
            on_progress(len(ordered) - len(waiting) - len(running), under_way)
            time.sleep(POLL_SECONDS)
            for share, (command, process) in tuple(running.items()):
                if process.poll() is not None:
                    del running[share]
                    _check(command, process.returncode)
    finally:
        _stop(process for _, process in running.values())
    on_progress(len(ordered), ())


def _shares(cores: Sequence[int], count: int) -> list[str]:
    hands = [cores[i::count] or [cores[i % len(cores)]] for i in range(count)]
    return [",".join(map(str, hand)) for hand in hands]


def _start(command: Command, cores: str) -> subprocess.Popen[bytes]:
    program, *arguments = command.words
    module = ("-m", "codea1_jax.cli") if program == "codea1" else ()
    command.directory.parent.mkdir(parents=True, exist_ok=True)
    with command.log.open("ab") as log:
        # The process inherits the lock and keeps it until it ends: one whose parent was killed may still be saving.
        fcntl.flock(log, fcntl.LOCK_EX)
        again = command.again if command.directory.exists() else ()
        line = [sys.executable, "-m", "codea1_jax.cli._child", cores, *module, *arguments, *again]
        return subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def _check(command: Command, code: int) -> None:
    if code == 0 and command.finished:
        return
    lines = command.log.read_text(errors="replace").strip().split("\n")
    raise ChildProcessError(
        f"{command.directory.name} ended with exit code {code}: {lines[-1][-LAST_WORDS:]} (all of it: {command.log}); "
        "the same command resumes from here"
    )


def _stop(processes: Iterator[subprocess.Popen[bytes]]) -> None:
    stopped = list(processes)
    for process in stopped:
        process.send_signal(signal.SIGTERM)
    for process in stopped:
        process.wait()
