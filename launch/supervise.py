"""Takes a run on Cloud TPU VMs from nothing to its results, through preemptions and failures, and cleans up."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from codea1_jax.config import SandboxConfig
from launch import checks, tpu
from launch.shell import Command, CommandFailed, LaunchError, ask, run
from launch.tpu import ABSENT, ACTIVE, FAILED, PREEMPTED, SUSPENDED, Pod

T = TypeVar("T")

_ATTEMPTS = 5  # to read an unknown state, before giving up
_DELETIONS = 40  # a slice that is being created cannot be deleted yet

# What workers report about training.
_RUNNING = "running"
_DONE = "exit 0"
_BAD_INPUT = "exit 2"  # would be repeated on every try


@dataclass(frozen=True)
class Patience:
    """`poll`: seconds between status checks. `retries`: how often to restart failed training."""

    poll: float = 30
    retries: int = 3


def up(pod: Pod, sandbox: SandboxConfig, patience: Patience, skip: Collection[str], keep: bool) -> None:
    """All steps. Raises LaunchError if training cannot finish; what is billed is deleted even then."""
    if state_of(pod, patience) == ABSENT:
        checks.perform(tpu.check(pod), skip)
    try:
        _train(pod, sandbox, patience)
    finally:
        _finish(pod, patience, keep)


def acquire(pod: Pod, patience: Patience) -> None:
    """Waits for the slices; requests them if needed, and again if they were preempted."""
    asked = False
    while (state := state_of(pod, patience)) != ACTIVE:
        if state == ABSENT:
            run(tpu.create(pod))
            asked = True
        elif state == FAILED and asked:
            raise LaunchError(f"the request for slices failed: {ask(tpu.describe(pod)).out.strip()}")
        elif state in (SUSPENDED, FAILED):  # of an earlier request
            release(pod, patience)
        else:
            report(f"slices: {state}")
            time.sleep(patience.poll)


def release(pod: Pod, patience: Patience) -> None:
    """Deletes the slices and their request, and waits until they are gone. Raises LaunchError if they remain."""
    for _ in range(_DELETIONS):
        if state_of(pod, patience) == ABSENT:
            return
        command = tpu.delete(pod)
        try:
            run(command)
        except CommandFailed as error:
            report(f"not deleted yet: {error}")
            time.sleep(patience.poll)
    raise LaunchError("the slices were not deleted")


def state_of(pod: Pod, patience: Patience) -> str:
    """The state of the request for slices. Raises LaunchError if it stays unknown."""
    return retry(lambda: tpu.read_state(ask(tpu.describe(pod))), patience)


def _train(pod: Pod, sandbox: SandboxConfig, patience: Patience) -> None:
    run(*pod.job.upload())
    failures = 0
    while True:
        acquire(pod, patience)
        try:
            run(*tpu.install(pod, sandbox), tpu.start(pod))
            ends = _follow(pod, patience)
        except LaunchError as error:
            ends = frozenset({str(error)})
        if ends == {_DONE}:
            return
        reason = ", ".join(sorted(ends - {_DONE}))
        if state_of(pod, patience) in PREEMPTED:
            report(f"the slices were preempted ({reason}); new ones resume from the last checkpoint")
            continue
        failures += 1
        if failures > patience.retries or _BAD_INPUT in ends:
            raise LaunchError(f"training failed: {reason}")
        report(f"training failed ({reason}); it resumes from the last checkpoint, try {failures} of {patience.retries}")


def _follow(pod: Pod, patience: Patience) -> frozenset[str]:
    """Shows the log until training has ended on all workers. Returns how it ended.

    Raises LaunchError if workers stay unreachable.
    """
    followed, misses = False, 0
    while True:
        followed = followed or try_run(tpu.logs(pod))
        try:
            reported = tpu.read_training(ask(tpu.status(pod)))
        except LaunchError as error:
            misses += 1
            if misses == _ATTEMPTS or state_of(pod, patience) != ACTIVE:
                raise
            report(str(error))
        else:
            misses = 0
            if _RUNNING not in reported:
                return reported
        time.sleep(patience.poll)


def _finish(pod: Pod, patience: Patience, keep: bool) -> None:
    """Stops, copies and deletes; a failure does not prevent the next."""
    try:
        state = state_of(pod, patience)
        if state == ACTIVE:
            try_run(tpu.stop(pod))
        if state in (ACTIVE, *PREEMPTED):
            try_run(*pod.job.results())
        if not keep:
            release(pod, patience)
    except BaseException:
        report(f"WARNING: the slices may still be BILLED; delete them: {tpu.delete(pod)}")
        raise


def try_run(*commands: Command) -> bool:
    """Runs commands; returns whether all succeed, and reports the first that fails instead of raising."""
    try:
        run(*commands)
    except LaunchError as error:
        report(str(error))
        return False
    return True


def retry(look: Callable[[], T], patience: Patience) -> T:
    """What `look` returns. Calls it again a few times if it raises LaunchError."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return look()
        except LaunchError as error:
            report(str(error))
            time.sleep(patience.poll)
    return look()


def report(line: str) -> None:
    print(f"launch: {line}", file=sys.stderr, flush=True)
