"""GPUs of several nodes, through SLURM."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from codea1_jax.common.chips import find_hardware
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config
from launch import checks
from launch.checks import Check
from launch.job import Job
from launch.platforms import Platform, Step, add_instead
from launch.shell import Command, Refused, ask, report, run

SCRIPT = "launch/slurm.sbatch"
ASK_SECONDS = 120


class Slurm(Platform):
    """The GPUs of several nodes. If the preset's mesh is for one node, each node holds a replica."""

    description = "GPUs of several nodes"
    steps = ("check", "start", "logs", "status", "stop", "up")

    def __init__(self, options: argparse.Namespace, job: Job, config: Config | None) -> None:
        super().__init__(options, job, config)
        name = options.gpus or (config.hardware if config else None)
        if name is None:
            raise Refused("--gpus: give the GPUs of one machine, as in h100:8, or a preset that is made for them")
        self.kind, self.count = find_gpus(name)
        self.job = replace(job, slices=self._replicas())

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--nodes", type=int, default=1, metavar="N", help="number of machines")
        parser.add_argument("--sbatch-flag", action="append", default=[], metavar="FLAG", help="passed to sbatch")
        parser.add_argument("--poll", type=float, default=30, metavar="SECONDS", help="time between queue checks")
        parser.add_argument("--gpus", metavar="KIND:COUNT", help="GPUs of one machine; default: the preset's hardware")
        add_instead(parser)

    def _replicas(self) -> int:
        """One if the mesh is for the GPUs of all nodes, else one on each node."""
        if self.config is None:
            return 1
        try:
            self.config.mesh.shape(self.count * self.options.nodes)
        except UserError:
            return self.options.nodes
        return 1

    @property
    def checks(self) -> tuple[Check, ...]:
        """The run itself. SLURM refuses by itself what it cannot run."""
        return checks.training(self.job, f"{self.kind}:{self.count * self.options.nodes // self.job.slices}")

    def start(self) -> Step:
        """Queues the job, with its log next to the run, unless it is queued already."""
        commands = (*self.status().commands, Command(("mkdir", "-p", "runs")), self._submit())
        return Step(commands, lambda: self._queue(check=False))

    def logs(self) -> Step:
        follow = (
            'while kill -0 "$$" && [[ -n $(squeue --me --name="$2" --noheader) ]]; do sleep "$3"; done & '
            'tail -n +1 -F --sleep-interval=0.5 --pid="$!" "$1" || true'
        )
        words = ("bash", "-c", follow, "follow", self._log, self.job.name, str(self.options.poll))
        return Step((Command(words, seconds=None),))

    def status(self) -> Step:
        words = ("squeue", "--me", f"--name={self.job.name}", "--noheader", "--format=%i %T %M %R")
        return Step((Command(words, seconds=ASK_SECONDS),))

    def stop(self) -> Step:
        """Cancels the job. SLURM gives training some seconds (KillWait) to save."""
        return Step((Command(("scancel", "--me", f"--name={self.job.name}"), seconds=ASK_SECONDS),))

    def up(self) -> Step:
        look, *queue = self.start().commands
        logs = self.logs().commands

        def up() -> None:
            self._queue(check=True)
            run(*logs)

        return Step((look, *self.checking, *queue, *logs), up)

    @property
    def _log(self) -> str:
        return f"{self.job.directory}.log"

    def _submit(self) -> Command:
        words = (
            "sbatch",
            "--parsable",
            f"--job-name={self.job.name}",
            f"--nodes={self.options.nodes}",
            f"--gpus-per-node={self.count}",
            f"--output={self._log}",
            *self.options.sbatch_flag,
            SCRIPT,
            sys.executable,
            *self.job.arguments(),
        )
        return Command(words, seconds=ASK_SECONDS)

    def _queue(self, *, check: bool) -> None:
        """Queues the job, unless it is queued already. Raises Refused if a check fails."""
        look, *commands = self.start().commands
        answer = ask(look)
        if answer.code == 0 and answer.out.strip():
            report(f"already queued: {answer.out.strip()}")
            return
        if check:
            self.perform_checks()
        run(*commands)


def find_gpus(name: str) -> tuple[str, int]:
    try:
        hardware = find_hardware(name)
    except UserError as error:
        raise Refused(f"--gpus {name}: {error}") from error
    if hardware.is_tpu:
        raise Refused(f"--gpus {name}: that is a TPU; use `python -m launch tpu`")
    return hardware.kind, hardware.devices
