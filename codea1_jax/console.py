"""What people see: on standard error, while a command works, the log and how far it is; on standard output, tables."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, SupportsFloat, TextIO, runtime_checkable

import rich.progress
from rich.console import Console
from rich.table import Table

WIDE = 10_000  # columns, more than any table has
LOGGED = ("codea1_jax", "sandbox")  # packages whose log a user reads
QUIET_SECONDS = 30  # that pass at most, off a terminal, between two lines on progress

logger = logging.getLogger(__name__)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Looks standard error up at every record, so that lines go above a progress bar that has captured it."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Sends the log records of this project to standard error; calling it again changes the level."""
    handler = _StderrHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    for package in map(logging.getLogger, LOGGED):
        package.setLevel(level)
        package.propagate = False
        for old in [handler for handler in package.handlers if isinstance(handler, _StderrHandler)]:
            package.removeHandler(old)
        package.addHandler(handler)


_PHASES = {
    "programs": "seconds/generate_code",
    "tests": "seconds/generate_tests",
    "judge": "seconds/judge_wait",
    "update code": "seconds/update_code",
    "update test": "seconds/update_test",
}
_SHOWN = (
    ("code reward", "code/reward", "{:z.3f}"),  # z: a small negative number is not -0.000
    ("test reward", "test/reward", "{:z.3f}"),
    ("passed", "pass_rate", "{:.0%}"),
)


def describe(values: Mapping[str, SupportsFloat]) -> list[str]:
    """One step's figures in words; those that are missing are left out."""
    figures = [f"{label} {form.format(float(values[name]))}" for label, name, form in _SHOWN if name in values]
    if "seconds/step" in values:
        phases = [f"{label} {float(values[name]):.1f}" for label, name in _PHASES.items() if name in values]
        figures.append(": ".join(filter(None, [f"{float(values['seconds/step']):.1f} s", ", ".join(phases)])))
    return figures


class TrainingProgress:
    """Shows how far training is: a bar on a terminal, otherwise one log line per step. A context manager.

    `done` is the number of steps an earlier, resumed run has done.
    """

    def __init__(
        self,
        total: int,
        *,
        done: int = 0,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        console = Console(stderr=True) if console is None else console
        self._total, self._clock = total, clock
        self._compiled: tuple[int, float] | None = None  # the first step that is done here, and when
        self._bar = _make_bar(console) if console.is_terminal else None
        self._task = self._bar.add_task("", total=total, completed=done, eta="--:--") if self._bar else None

    def update(self, step: int, values: Mapping[str, SupportsFloat]) -> None:
        """Shows that `step` steps are done, with the metrics of the last."""
        eta = self._eta(step)
        if self._bar is None or self._task is None:
            logger.info(" | ".join([f"step {step}/{self._total}", *describe(values), f"{eta} left"]))
        else:
            self._bar.update(self._task, completed=step, description=" | ".join(describe(values)), eta=eta)

    def _eta(self, step: int) -> str:
        """By the steps after the first one, which compiles."""
        if self._compiled is None:
            self._compiled = step, self._clock()
            return "--:--"
        first, started = self._compiled
        left = (self._clock() - started) / (step - first) * (self._total - step)
        minutes, seconds = divmod(round(left), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"

    def __enter__(self) -> TrainingProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _make_bar(console: Console) -> rich.progress.Progress:
    return rich.progress.Progress(
        rich.progress.TextColumn("step"),
        rich.progress.MofNCompleteColumn(),
        rich.progress.BarColumn(bar_width=20),
        rich.progress.TextColumn("{task.fields[eta]} left", style="cyan"),
        rich.progress.TextColumn("{task.description}", markup=False),
        console=console,
    )


@runtime_checkable
class ShowProgress(Protocol):
    """Shows how far a command is, with a note on what it is doing."""

    def __call__(self, done: int, total: int, note: str = "", /) -> None: ...


def progress_lines(title: str, clock: Callable[[], float] = time.monotonic) -> ShowProgress:
    """Lines on standard error: for each new note, and where there is none, one in QUIET_SECONDS."""
    shown_note, shown_at = "", clock()

    def show(done: int, total: int, note: str = "", /) -> None:
        nonlocal shown_note, shown_at
        if note != shown_note or clock() - shown_at >= QUIET_SECONDS:
            print(" ".join(filter(None, [title, f"{done}/{total}", note])), file=sys.stderr, flush=True)
            shown_note, shown_at = note, clock()

    return show


@contextmanager
def progress_bar(title: str, *, total: int | None = None, done: int = 0) -> Iterator[ShowProgress]:
    """A bar on standard error; unless that is a terminal, `progress_lines`."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield progress_lines(title)
        return
    columns = (
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TimeElapsedColumn(),
        rich.progress.TimeRemainingColumn(),
        rich.progress.TextColumn("{task.fields[note]}", markup=False),
    )
    with rich.progress.Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total, completed=done, note="")

        def show(done: int, total: int, note: str = "", /) -> None:
            bar.update(task, completed=done, total=total, note=note)

        yield show


def print_table(table: Table) -> None:
    """Prints a table on standard output, with no figure cut short; in plain columns where that is not a terminal."""
    console = Console(highlight=False)
    if console.is_terminal:
        needed = console.measure(table, options=console.options.update(width=WIDE)).minimum
        console.width = max(console.width, needed)  # a terminal wraps what is wider than it is
    else:
        table.box, console.width = None, WIDE
    console.print(table)
