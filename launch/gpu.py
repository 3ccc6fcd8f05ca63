"""GPUs: all of this machine in one process, or of several nodes through SLURM. Pure, except for `queue`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from codea1_jax.common.errors import UserError
from codea1_jax.config import Config
from codea1_jax.devices.chips import find_hardware
from launch import checks
from launch.checks import Check
from launch.job import Job, codea1
from launch.shell import Answer, Command, Refused, ask, run
from launch.supervise import report

SCRIPT = "launch/slurm.sbatch"
ASK_SECONDS = 120
PROOF_SECONDS = 1800  # it takes minutes


@dataclass(frozen=True)
class Machine:
    """The GPUs of one machine, named as `codea1 plan --topology` names them, and how many such machines."""

    job: Job
    kind: str
    count: int
    nodes: int = 1
    sbatch_flags: tuple[str, ...] = ()

    @property
    def topology(self) -> str:
        """The GPUs of one replica."""
        return f"{self.kind}:{self.count * self.nodes // self.job.slices}"

    @property
    def log(self) -> str:
        return f"runs/{self.job.name}.log"


def find_gpus(name: str) -> tuple[str, int]:
    """Kind and count of KIND:COUNT. Raises Refused if there is no such GPU."""
    try:
        hardware = find_hardware(name)
    except UserError as error:
        raise Refused(f"--gpus {name}: {error}") from error
    if hardware.is_tpu:
        raise Refused(f"--gpus {name}: that is a TPU; use `python -m launch tpu`")
    return hardware.kind, hardware.devices


def replicas(config: Config | None, count: int, nodes: int) -> int:
    """Replicas over nodes with `count` GPUs each: one if the mesh is for all of these GPUs, else one on each node."""
    if config is None:
        return 1
    try:
        config.mesh.shape(count * nodes)
    except UserError:
        return nodes
    return 1


def check_here(machine: Machine, prove: bool) -> tuple[Check, ...]:
    """What must hold before training starts on this machine; `prove`: also that its devices compute as they should."""
    run = (machine.job.preset, *machine.job.overrides)
    needs = (*run, f"hardware={machine.topology}") if machine.job.trains else ()
    doctor = Command(codea1("doctor", *needs))
    selftest = Command(codea1("selftest", *run), seconds=PROOF_SECONDS)
    return (
        Check("doctor", doctor, checks.reports("out")),
        *_everywhere(machine),
        *((Check("selftest", selftest, checks.reports("out")),) if prove else ()),
    )


def check_slurm(machine: Machine) -> tuple[Check, ...]:
    """What must hold before the job is queued."""
    program, *words = submit(machine).words

    def verdict(answer: Answer) -> str | None:
        return None if answer.code == 0 else f"SLURM would refuse the job: {answer.reason}"

    command = Command((program, "--test-only", *words), seconds=ASK_SECONDS)
    return Check("queue", command, verdict), *_everywhere(machine)


def train(machine: Machine) -> Command:
    """Trains here, until it ends."""
    return Command(codea1(*machine.job.arguments()), seconds=None)


def submit(machine: Machine) -> Command:
    """Queues the job."""
    words = (
        "sbatch",
        "--parsable",
        f"--job-name={machine.job.name}",
        f"--nodes={machine.nodes}",
        f"--gpus-per-node={machine.count}",
        f"--output={machine.log}",
        *machine.sbatch_flags,
        SCRIPT,
        sys.executable,
        *machine.job.arguments(),
    )
    return Command(words, seconds=ASK_SECONDS)


def submit_once(machine: Machine) -> tuple[Command, ...]:
    """Queues the job, with its log next to the run."""
    return Command(("mkdir", "-p", "runs")), submit(machine)


def status(machine: Machine) -> Command:
    """Asks for the job; the answer is empty once it has ended."""
    words = ("squeue", "--me", f"--name={machine.job.name}", "--noheader", "--format=%i %T %M %R")
    return Command(words, seconds=ASK_SECONDS)


def logs(machine: Machine, poll: float) -> Command:
    """Follows the log until the job has left the queue."""
    follow = (
        'while kill -0 "$$" && [[ -n $(squeue --me --name="$2" --noheader) ]]; do sleep "$3"; done & '
        'tail -n +1 -F --sleep-interval=0.5 --pid="$!" "$1" || true'
    )
    return Command(("bash", "-c", follow, "follow", machine.log, machine.job.name, str(poll)), seconds=None)


def cancel(machine: Machine) -> Command:
    """Cancels the job. SLURM gives training some seconds (KillWait) to save."""
    return Command(("scancel", "--me", f"--name={machine.job.name}"), seconds=ASK_SECONDS)


def queue(machine: Machine, checking: Sequence[Check], skip: Collection[str]) -> None:
    """Queues the job, unless it is queued already. Raises Refused if a check fails."""
    answer = ask(status(machine))
    if answer.code == 0 and answer.out.strip():
        report(f"already queued: {answer.out.strip()}")
        return
    checks.perform(checking, skip)
    run(*submit_once(machine))


def _everywhere(machine: Machine) -> tuple[Check, ...]:
    bucket = (checks.bucket(machine.job),) if machine.job.bucket is not None else ()
    return (*bucket, *checks.training(machine.job, machine.topology))
