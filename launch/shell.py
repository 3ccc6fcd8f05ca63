"""Commands as data, and the one place that runs them."""

import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

TIMED_OUT = 124
ATTEMPTS = 5  # to read an unknown state, before giving up


class LaunchError(Exception):
    """A launch that failed; the message is one line."""


class Refused(LaunchError):
    """A launch that cannot work; nothing was started."""


@dataclass(frozen=True)
class Command:
    words: tuple[str, ...]
    seconds: float | None = 600

    def __str__(self) -> str:
        return shlex.join(self.words)


@dataclass(frozen=True)
class Step:
    """The commands of a step if all goes well, and the function that performs it; without one, the commands are run."""

    commands: Sequence[Command]
    perform: Callable[[], None] | None = None


@dataclass(frozen=True)
class Answer:
    """What a command printed and returned; `code` is TIMED_OUT after its time limit."""

    code: int
    out: str
    err: str

    @property
    def reason(self) -> str:
        return next(reversed(self.err.strip().splitlines()), f"exit code {self.code}")


class CommandFailed(LaunchError):
    def __init__(self, command: Command, code: int) -> None:
        why = f"no answer within {command.seconds:.0f} s" if code == TIMED_OUT else f"exit code {code}"
        super().__init__(f"{why}: {command}")


def run(*commands: Command) -> None:
    """Runs commands in order and shows their output. Raises CommandFailed at the first that fails."""
    for command in commands:
        print(f"+ {command}", file=sys.stderr, flush=True)
        code = _code(command)
        if code != 0:
            raise CommandFailed(command, code)


def ask(command: Command) -> Answer:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:  # a pipe would outlive a timeout
        code = _code(command, out, err)
        out.seek(0)
        err.seek(0)
        return Answer(code, out.read(), err.read())


def try_run(*commands: Command) -> bool:
    """Runs commands; returns whether all succeed, and reports the first that fails instead of raising."""
    try:
        run(*commands)
    except LaunchError as error:
        report(str(error))
        return False
    return True


def retry(look: Callable[[], T], seconds: float) -> T:
    for _ in range(ATTEMPTS - 1):
        try:
            return look()
        except LaunchError as error:
            report(str(error))
            time.sleep(seconds)
    return look()


def report(line: str) -> None:
    print(f"launch: {line}", file=sys.stderr, flush=True)


def _code(command: Command, out=None, err=None) -> int:
    try:
        return subprocess.run(
            command.words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            text=True,
            timeout=command.seconds,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        return TIMED_OUT
    except FileNotFoundError as error:
        raise Refused(f"{command.words[0]} is not installed, or not on PATH") from error
