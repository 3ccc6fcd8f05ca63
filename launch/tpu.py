"""Cloud TPU VMs: the gcloud commands of each step. Pure.

Slices are queued resources, which work for on-demand, spot and reserved capacity, and for one slice or several.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Literal

from codea1_jax.config import SandboxConfig
from launch import checks
from launch.checks import Check
from launch.hardware import Slice, required
from launch.job import Job
from launch.shell import Answer, Command, LaunchError

SOURCE = "source.tar.gz"
WORKER = "launch/worker.sh"
EXTRAS_OF_EVALUATION = "tpu,eval,bigcodebench"
ASK_SECONDS = 120
CREATE_SECONDS = 600
INSTALL_SECONDS = 3600
STOP_SECONDS = 420  # worker.sh waits 300, and many workers must be reached

ABSENT, ACTIVE, FAILED, SUSPENDED = "ABSENT", "ACTIVE", "FAILED", "SUSPENDED"
# States of a queued resource whose slices are gone, or going.
PREEMPTED = ("SUSPENDING", SUSPENDED, "DELETING", ABSENT)

# A preempted machine does not answer at all: ssh must notice by itself.
_ALIVE = ("--ssh-flag=-oServerAliveInterval=15", "--ssh-flag=-oServerAliveCountMax=4")


@dataclass(frozen=True)
class Pod:
    """The slices of a run, and how to reach them."""

    job: Job
    project: str
    zone: str
    slice: Slice | None = None
    capacity: Literal["on-demand", "spot", "reserved"] = "on-demand"
    wait: str | None = None
    send: tuple[str, ...] = ()
    create_flags: tuple[str, ...] = ()
    ssh_flags: tuple[str, ...] = ()

    @property
    def shape(self) -> Slice:
        """The slice. Raises Refused if none was given."""
        return required(self.slice)

    @property
    def where(self) -> tuple[str, str]:
        return f"--project={self.project}", f"--zone={self.zone}"


def check(pod: Pod) -> tuple[Check, ...]:
    """What must hold before the slices are requested."""
    quota = checks.quota(pod.project, pod.zone, pod.shape, pod.job.slices, pod.capacity == "spot")
    return (
        checks.tree(),
        checks.zone(pod.project, pod.zone, pod.shape),
        *((quota,) if pod.capacity != "reserved" else ()),
        checks.bucket(pod.job, pod.zone),
        *checks.training(pod.job, pod.shape.name),
    )


def create(pod: Pod) -> Command:
    """Requests the slices."""
    name, slices = pod.job.name, pod.job.slices
    nodes = (f"--node-id={name}",) if slices == 1 else (f"--node-count={slices}", f"--node-prefix={name}")
    words = (
        *_queued("create", name),
        *pod.where,
        f"--accelerator-type={pod.shape.accelerator_type}",
        f"--runtime-version={pod.shape.generation.runtime}",
        *nodes,
        *((f"--{pod.capacity}",) if pod.capacity != "on-demand" else ()),
        *((f"--valid-until-duration={pod.wait}",) if pod.wait else ()),
        *pod.create_flags,
        "--quiet",
    )
    return Command(words, seconds=CREATE_SECONDS)


def describe(pod: Pod) -> Command:
    """Asks for the state of the request; `read_state` reads the answer."""
    return Command((*_queued("describe", pod.job.name), *pod.where, "--format=json"), seconds=ASK_SECONDS)


def read_state(answer: Answer) -> str:
    """The state of a queued resource, ABSENT if there is none. Raises LaunchError if the state is unknown."""
    if answer.code == 0:
        return json.loads(answer.out)["state"]["state"]
    if "NOT_FOUND" in answer.err:
        return ABSENT
    raise LaunchError(f"the state of the slices is unknown: {answer.reason}")


def delete(pod: Pod) -> Command:
    """Deletes the request and its slices."""
    return Command((*_queued("delete", pod.job.name), *pod.where, "--force", "--quiet"), seconds=CREATE_SECONDS)


def install(pod: Pod, sandbox: SandboxConfig) -> tuple[Command, ...]:
    """Puts the tree and its packages on every worker; tries the jail if the run needs it."""
    needs_jail = sandbox.backend in ("auto", "nsjail") and sandbox.fallback == "none"
    name = pod.job.name
    folder = f".cache/launch/{name}"  # of its own: several may be launched at once
    copied = (f"{folder}/{SOURCE}", WORKER, *pod.send, f"{name}:")
    return (
        Command(("mkdir", "-p", folder)),
        Command(("git", "archive", "--format=tar.gz", f"--output={folder}/{SOURCE}", "HEAD")),
        Command((*_queued("scp", *copied), *_reach(pod, "all"), "--recurse", *pod.ssh_flags, "--quiet"), seconds=3600),
        on_workers(pod, "install", EXTRAS_OF_EVALUATION if pod.job.evaluation else "tpu", seconds=INSTALL_SECONDS),
        *((on_workers(pod, "jail"),) if needs_jail else ()),
    )


def start(pod: Pod) -> Command:
    """Starts training on every worker, unless it runs already."""
    return on_workers(pod, "start", pod.job.folder, pod.job.directory, *pod.job.arguments(*pod.job.read_from_bucket()))


def status(pod: Pod) -> Command:
    """Asks every worker for the state of training; `read_training` reads the answer."""
    return on_workers(pod, "status", seconds=ASK_SECONDS)


def read_training(answer: Answer) -> frozenset[str]:
    """What the workers report: running, exit CODE, lost or none. Raises LaunchError if they cannot be reached."""
    reported = frozenset(
        line.removeprefix("training: ") for line in answer.out.splitlines() if line.startswith("training: ")
    )
    if answer.code != 0 or not reported:
        raise LaunchError(f"workers cannot be reached: {answer.reason}")
    return reported


def logs(pod: Pod) -> Command:
    """Follows the first worker's log until training ends there."""
    return on_workers(pod, "logs", everywhere=False, seconds=None)


def stop(pod: Pod) -> Command:
    """Stops training on every worker; training saves its state."""
    return on_workers(pod, "stop", seconds=STOP_SECONDS)


def on_workers(pod: Pod, *words: str, everywhere: bool = True, seconds: float | None = 600) -> Command:
    """A worker.sh command on every worker of every slice, or on the first worker."""
    reach = _reach(pod, "all" if everywhere else "0")
    command = f"--command={shlex.join(('bash', 'worker.sh', *words))}"
    line = (*_queued("ssh", pod.job.name), *reach, command, *_ALIVE, *pod.ssh_flags, "--quiet")
    return Command(line, seconds=seconds)


def _reach(pod: Pod, which: str) -> tuple[str, ...]:
    return (*pod.where, f"--node={which}", f"--worker={which}")


def _queued(verb: str, *words: str) -> tuple[str, ...]:
    return ("gcloud", "compute", "tpus", "queued-resources", verb, *words)
