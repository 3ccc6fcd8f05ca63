"""What people see: on standard error, while a command works, how far it is; on standard output, tables."""

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, SupportsFloat

import rich.progress
from rich.console import Console
from rich.table import Column, Table

from codea1_jax.common.activity import shown_by

WIDE = 10_000  # columns, more than any table has
SOON_SECONDS = 5.0  # after which, off a terminal, a new stage of work is named
MINUTE_SECONDS = 60.0  # between lines, off a terminal, on the step in progress
QUIET_SECONDS = 30.0  # between lines, off a terminal, on other work

logger = logging.getLogger(__name__)

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
    figures = [f"{label} {form.format(float(values[name]))}" for label, name, form in _SHOWN if name in values]
    figures = figures or [f"loss {float(values[name]):.3f}" for name in ("code/loss", "test/loss") if name in values]
    if "seconds/step" in values:
        phases = [f"{label} {float(values[name]):.1f}" for label, name in _PHASES.items() if name in values]
        figures.append(": ".join(filter(None, [f"{float(values['seconds/step']):.1f} s", ", ".join(phases)])))
    return figures


class _Stage:
    """The stage of work in progress as a line, and when one is due: soon after it begins, then once in a while."""

    def __init__(self, clock: Callable[[], float], pause: float) -> None:
        self._clock, self._pause = clock, pause
        self._name, self._began = "", (0, clock())  # parts done when the stage was first heard of, and when that was
        self._due = clock() + SOON_SECONDS

    def begin(self, name: str, done: int) -> None:
        if name != self._name or done < self._began[0]:
            self._name, self._began = name, (done, self._clock())
            self._due = min(self._due, self._clock() + SOON_SECONDS)

    def left(self, done: int, total: int, seconds: float | None = None) -> str:
        """In words, by the rate since the stage began unless the seconds are known."""
        first, began = self._began
        if seconds is None and done > first:
            seconds = (self._clock() - began) / (done - first) * (total - done)
        return "" if seconds is None else f", {_clock_time(seconds)} left"

    def line(self, stage: str, done: int, total: int, parts: str, note: str, left: float | None) -> str:
        self.begin(f"{stage} {parts}", done)
        words = ", ".join(filter(None, [f"{stage} {done}/{total} {parts}", note]))
        return words + self.left(done, total, left)

    def is_due(self) -> bool:
        if due := self._clock() >= self._due:
            self.shown()
        return due

    def shown(self) -> None:
        self._due = self._clock() + self._pause


class TrainingProgress:
    """Shows how far training is, and how far the step in progress: a line for every step that is done and, on a
    terminal, a short one below them that is kept up to date; elsewhere log lines. A context manager.

    `done` is the number of steps an earlier, resumed run has done. shown: whether this process shows anything.
    """

    def __init__(
        self,
        total: int,
        *,
        done: int = 0,
        shown: bool = True,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        console = Console(stderr=True) if console is None else console
        self._total, self._clock = total, clock
        self._step, self._stage = done, _Stage(clock, MINUTE_SECONDS)
        self._compiled: tuple[int, float] | None = None  # the first step that is done here, and when
        self._bar = _make_bar(console) if shown and console.is_terminal else None
        self._task = self._bar.add_task("", total=total, completed=done, eta="--:--") if self._bar else None
        self._stack = ExitStack()

    def update(self, step: int, values: Mapping[str, SupportsFloat]) -> None:
        now = self._clock()
        eta, self._step = self._eta(step, now), step
        self._stage.shown()
        line = [f"step {step}/{self._total}", *describe(values)]
        if self._bar is None or self._task is None:
            logger.info(" | ".join([*line, f"{eta} left"]))
        else:
            self._bar.console.print(" | ".join(line), markup=False, highlight=False, soft_wrap=True)
            self._bar.update(self._task, completed=step, description="", eta=eta)

    def show(self, stage: str, done: int, total: int, parts: str, note: str = "", left: float | None = None) -> None:
        line = self._stage.line(stage, done, total, parts, note, left)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=line)
        elif self._stage.is_due():
            logger.info("after step %d: %s", self._step, line)

    def _eta(self, step: int, now: float) -> str:
        """By the steps after the first one, which compiles."""
        if self._compiled is None:
            self._compiled = step, now
            return "--:--"
        first, started = self._compiled
        return _clock_time((now - started) / (step - first) * (self._total - step))

    def __enter__(self) -> "TrainingProgress":
        if self._bar is not None:
            self._stack.enter_context(self._bar)
        self._stack.enter_context(shown_by(self.show))
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()


def _clock_time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _make_bar(console: Console) -> rich.progress.Progress:
    return rich.progress.Progress(
        rich.progress.TextColumn("step"),
        rich.progress.MofNCompleteColumn(),
        rich.progress.BarColumn(bar_width=10),
        rich.progress.TextColumn("{task.fields[eta]} left", style="cyan"),
        rich.progress.TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
        console=console,
        expand=True,
    )


class ProgressLines:
    """How far a command is, as lines on standard error: for each new note, and where there is none, once in a while."""

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._title, self._counts, self._note = title, "", ""
        self._stage = _Stage(clock, QUIET_SECONDS)

    def __call__(self, done: int, total: int, note: str = "", /) -> None:
        self._counts = " ".join(filter(None, [f"{done}/{total}", note]))
        self._stage.begin(note, done)
        if note != self._note or self._stage.is_due():
            self._note = note
            self._stage.shown()
            self._print(f"{self._title} {self._counts}{self._stage.left(done, total)}")

    def activity(self, stage: str, done: int, total: int, parts: str, note: str, left: float | None) -> None:
        line = self._stage.line(stage, done, total, parts, note, left)
        if self._stage.is_due():
            self._print(f"{' '.join(filter(None, [self._title, self._counts]))}: {line}")

    def _print(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[..., None]]:
    """A bar on standard error, or lines unless that is a terminal, which also show what is reported as activity."""
    console = Console(stderr=True)
    if not console.is_terminal:
        lines = ProgressLines(title)
        with shown_by(lines.activity):
            yield lines
        return
    columns = (
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(bar_width=20),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TimeElapsedColumn(),
        rich.progress.TextColumn("{task.fields[note]}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
    )
    with rich.progress.Progress(*columns, console=console, expand=True) as bar:
        task, stage = bar.add_task(title, total=None, note=""), _Stage(time.monotonic, QUIET_SECONDS)

        def show(done: int, total: int, note: str = "", /) -> None:
            stage.begin(f"{note} {total}", done)  # something else that is counted has a rate of its own
            bar.update(task, total=total, completed=done, note=note + stage.left(done, total))

        def activity(*reported: Any) -> None:
            bar.update(task, note=stage.line(*reported))

        with shown_by(activity):
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


def results_table(benchmarks: Mapping[str, Mapping[str, Any]]) -> Table:
    figures = list(dict.fromkeys(name for found in benchmarks.values() for name in found))
    table = Table()
    table.add_column("")
    for name in figures:
        table.add_column(name.replace("_at_", "@").replace("_", " "), justify="right")
    for benchmark, found in benchmarks.items():
        table.add_row(benchmark, *(_cell(found.get(name)) for name in figures))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{value['value']:.2f} [{value['low']:.1f}, {value['high']:.1f}]"
    return "" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
