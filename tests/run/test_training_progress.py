"""What training shows of itself: on a terminal, and in a log."""

import io
import logging
import re

from rich.console import Console

from codea1_jax.common.activity import report
from codea1_jax.common.console import TrainingProgress

FIGURES = {"code/reward": 0.5, "test/reward": 0.25, "pass_rate": 0.613, "seconds/step": 432.1, "seconds/judge_wait": 9}


def test_a_terminal_keeps_a_line_for_every_step_above_a_short_one_on_the_step_in_progress():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    clock = [0.0]
    with TrainingProgress(1120, done=6, console=console, clock=lambda: clock[0]) as progress:
        progress.update(7, FIGURES)
        clock[0] = 6000.0
        progress.update(8, FIGURES)
        report("updating code", 0, 12, "micro-batches")
        clock[0] = 6110.0
        report("sampling", 48, 2048, "programs")
        clock[0] = 6200.0
        report("sampling", 1048, 2048, "programs")
    lines = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", screen.getvalue()).rstrip().splitlines()
    figures = "code reward 0.500 | test reward 0.250 | passed 61% | 432.1 s: judge 9.0"
    assert [lines.count(f"step {step}/1120 | {figures}") for step in (7, 8)] == [1, 1]
    assert lines[-1].split() == [
        *("step", "8/1120", lines[-1].split()[2], "1853:20:00", "left"),
        *("sampling", "1048/2048", "programs,", "1:30", "left"),
    ]
    assert len(lines[-1]) <= 80


def _logged(clock: list[float]) -> TrainingProgress:
    return TrainingProgress(9, done=4, console=Console(file=io.StringIO()), clock=lambda: clock[0])


def test_a_log_names_a_stage_soon_and_then_every_minute(caplog):
    clock = [0.0]
    with caplog.at_level(logging.INFO), _logged(clock) as progress:
        for seconds in range(0, 150, 10):
            clock[0] = float(seconds)
            report("sampling", seconds // 10, 30, "suites")
        clock[0] = 151.0
        progress.update(5, {})
        clock[0] = 200.0
        report("judging", 0, 4, "questions")
        clock[0] = 215.0
        report("judging", 1, 4, "questions")
    report("sampling", 1, 2, "suites")  # after the run: for nobody
    assert caplog.messages == [
        "after step 4: sampling 1/30 suites, 4:50 left",
        "after step 4: sampling 7/30 suites, 3:50 left",
        "after step 4: sampling 13/30 suites, 2:50 left",
        "step 5/9 | --:-- left",
        "after step 5: judging 1/4 questions, 0:45 left",
    ]


def test_one_host_of_several_shows_the_step_in_progress():
    screen = io.StringIO()
    with TrainingProgress(9, shown=False, console=Console(file=screen, force_terminal=True)) as progress:
        report("sampling", 1, 2, "suites")
        progress.update(1, {})
    assert screen.getvalue() == ""
