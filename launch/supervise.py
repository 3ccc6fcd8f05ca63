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

_LOOKS = 5  # at a state that is not told, before giving up
_DELETIONS = 40  # a slice that is being made cannot be deleted yet

# What workers say of training.
_RUNNING = "running"
_DONE = "exit 0"
_BAD_INPUT = "exit 2"  # would be said again, however often one tries


@dataclass(frozen=True)
class Patience:
    """`poll`: seconds between looks at a state. `retries`: failures of training to survive."""

    poll: float = 30
    retries: int = 3


def up(pod: Pod, sandbox: SandboxConfig, patience: Patience, skip: Collection[str], keep: bool) -> None:
    """All steps. Raises LaunchError when training cannot be brought to its end; what is billed is gone then, too."""
    if state_of(pod, patience) == ABSENT:
        checks.perform(tpu.check(pod, sandbox), skip)
    try:
        _train(pod, sandbox, patience)
    finally:
        _finish(pod, patience, keep)


def acquire(pod: Pod, patience: Patience) -> None:
    """Waits until the slices are there; asks for them if nobody has, and again if they were taken away."""
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
            say(f"slices: {state}")
            time.sleep(patience.poll)


def release(pod: Pod, patience: Patience) -> None:
    """Deletes the slices and their request, and waits until they are gone. Raises LaunchError if they stay."""
    for _ in range(_DELETIONS):
        if state_of(pod, patience) == ABSENT:
            return
        command = tpu.delete(pod)
        try:
            run(command)
        except CommandFailed as error:
            say(f"not deleted yet: {error}")
            time.sleep(patience.poll)
    raise LaunchError("the slices were not deleted")


def state_of(pod: Pod, patience: Patience) -> str:
    """The state of the request for slices. Raises LaunchError if it is not told."""
    return insist(lambda: tpu.read_state(ask(tpu.describe(pod))), patience)


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
            say(f"the slices were taken away ({reason}); new ones resume from the last checkpoint")
            continue
        failures += 1
        if failures > patience.retries or _BAD_INPUT in ends:
            raise LaunchError(f"training failed: {reason}")
        say(f"training failed ({reason}); it resumes from the last checkpoint, try {failures} of {patience.retries}")


def _follow(pod: Pod, patience: Patience) -> frozenset[str]:
    """Shows the log until training has ended on all workers. Returns how it ended.

    Raises LaunchError if workers cannot be reached for good.
    """
    followed, misses = False, 0
    while True:
        followed = followed or _succeeds(tpu.logs(pod))
        try:
            said = tpu.read_training(ask(tpu.status(pod)))
        except LaunchError as error:
            misses += 1
            if misses == _LOOKS or state_of(pod, patience) != ACTIVE:
                raise
            say(str(error))
        else:
            misses = 0
            if _RUNNING not in said:
                return said
        time.sleep(patience.poll)


def _finish(pod: Pod, patience: Patience, keep: bool) -> None:
    """Stops, copies and deletes; whatever fails, the next is done."""
    try:
        state = state_of(pod, patience)
        if state == ACTIVE:
            attempt(tpu.stop(pod))
        if state in (ACTIVE, *PREEMPTED):
            attempt(*tpu.copy(pod.job))
        if not keep:
            release(pod, patience)
    except BaseException:
        say(f"WARNING: the slices may still be BILLED; delete them: {tpu.delete(pod)}")
        raise


def attempt(*commands: Command) -> None:
    try:
        run(*commands)
    except LaunchError as error:
        say(str(error))


def _succeeds(command: Command) -> bool:
    try:
        run(command)
    except CommandFailed:
        return False
    return True


def insist(look: Callable[[], T], patience: Patience) -> T:
    """What `look` returns, at the latest at the last of some attempts."""
    for _ in range(_LOOKS - 1):
        try:
            return look()
        except LaunchError as error:
            say(str(error))
            time.sleep(patience.poll)
    return look()


def say(line: str) -> None:
    print(f"launch: {line}", file=sys.stderr, flush=True)
