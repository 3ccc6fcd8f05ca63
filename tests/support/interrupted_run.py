"""Runs in this process: trained from where they stand, and stopped after one of their steps by a signal to it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from codea1_jax.run.rundir import RunDir
from codea1_jax.training.loop import train
from codea1_jax.training.parts import Training
from codea1_jax.training.start import resume, start
from codea1_jax.training.state import State


def train_from(run: RunDir, training: Training) -> State:
    """The last state of a run, from its beginning or from where it was saved."""
    return train(training, start(training) if run.resume_step is None else resume(training, run), run)


@contextmanager
def interrupted_after(step: int) -> Iterator[None]:
    """Within, SIGINT follows the step's rollouts."""
    write_rollouts = RunDir.write_rollouts

    def interrupted(run: RunDir, done: int, lines: str) -> None:
        write_rollouts(run, done, lines)
        if done == step:
            signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunDir, "write_rollouts", interrupted)
        yield
