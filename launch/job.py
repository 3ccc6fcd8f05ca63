"""A run, and checks of it before anything is billed: commands that must succeed, and print why they do not."""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from codea1_jax.training.sources import Source
from data_pipeline.rows import SUFFIXES
from data_pipeline.storage import BUCKET
from launch.shell import Command, CommandFailed, Refused, run

PLAN_SECONDS = 3600  # a large preset has many programs to compile
REHEARSAL_SECONDS = 7200  # it takes minutes; each of its stages has its own limit
CODEA1 = (sys.executable, "-m", "codea1_jax.cli")


def codea1(*arguments: str) -> tuple[str, ...]:
    return (*CODEA1, *arguments)


@dataclass(frozen=True)
class Job:
    """A run: its name, its preset with overrides, and where it is stored (gs://bucket/folder).

    sources: where its questions come from. proves: runs `codea1 selftest` on all hosts in place of training.
    """

    name: str
    preset: str
    overrides: tuple[str, ...]
    bucket: str
    slices: int = 1
    sources: tuple[Source, ...] = ()
    proves: bool = False

    @property
    def directory(self) -> str:
        return f"runs/{self.name}"

    @property
    def folder(self) -> str:
        return f"{self.bucket}/{self.name}"

    def arguments(self, *more: str) -> tuple[str, ...]:
        """Arguments of `codea1`. Training resumes from the last checkpoint, if there is one."""
        replicas = [f"mesh.replica={self.slices}"] if self.slices > 1 else []
        if self.proves:
            return ("selftest", self.preset, *self.overrides, *replicas)
        own = (f"run.directory={self.directory}", f"checkpoint.directory={self.folder}/checkpoints")
        return ("train", self.preset, *self.overrides, *own, *replicas, *more, "--resume")

    @property
    def copies(self) -> Mapping[Source, str]:
        """The sources on this machine, each with its copy in the bucket, which workers read."""
        local = (source for source in self.sources if not source.place.startswith(BUCKET))
        return {source: f"{self.folder}/{source.key}/{PurePath(source.place).name}" for source in local}

    def upload(self) -> tuple[Command, ...]:
        storage = ("gcloud", "storage")
        return tuple(
            Command((*storage, "cp", source.place, copy))
            if source.place.endswith(SUFFIXES)
            else Command((*storage, "rsync", "--recursive", source.place, copy))
            for source, copy in self.copies.items()
        )

    def results(self) -> tuple[Command, ...]:
        return (
            Command(("mkdir", "-p", self.directory)),
            Command(("gcloud", "storage", "rsync", "--recursive", f"{self.folder}/run", self.directory), seconds=3600),
        )

    def check_overrides(self) -> None:
        taken = {
            "run.directory": "it is runs/NAME",
            "hosts.": "workers find each other",
            "checkpoint.directory": "it is below --bucket",
            **({"mesh.replica": "it is the number of slices"} if self.slices > 1 else {}),
        }
        for override in self.overrides:
            key = next((key for key in taken if override.startswith(key)), None)
            if key is not None:
                raise Refused(f"{override}: leave it out; {taken[key]}")


# --- checks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    name: str
    command: Command
    problem: str


def perform(checks: Sequence[Check], skip: Collection[str]) -> None:
    """Runs the checks. Raises Refused at the first that fails, and for an unknown name in `skip`."""
    names = [check.name for check in checks]
    unknown = set(skip).difference(names)
    if unknown:
        raise Refused(f"--skip {unknown.pop()}: the checks are {', '.join(names)}")
    for check in checks:
        if check.name in skip:
            print(f"skip {check.name}", file=sys.stderr)
            continue
        try:
            run(check.command)
        except CommandFailed as error:
            skipping = f"nothing was started (--skip {check.name} skips this check)"
            raise Refused(f"refused by {check.name}: {check.problem}; {skipping}") from error


def tree() -> Check:
    """The tree has no uncommitted changes, because workers get the last commit."""
    command = Command(("git", "diff", "--exit-code", "--stat", "HEAD"))
    return Check("tree", command, "uncommitted changes would not reach the workers; commit them")


def training(job: Job, topology: str) -> tuple[Check, ...]:
    """The run works in small on this machine, with its data, judge and bucket; and it fits one slice.

    Without training there is nothing to rehearse or to plan.
    """
    if job.proves:
        return ()
    run_of, on = (job.preset, *job.overrides), ("--topology", topology)
    rehearse = codea1("rehearse", *run_of, f"checkpoint.directory={job.folder}/checkpoints", *on)
    rehearsal = Command((*rehearse, "--directory", f"rehearsals/{job.name}"), seconds=REHEARSAL_SECONDS)
    plan = Command(codea1("plan", *run_of, *on), seconds=PLAN_SECONDS)
    return (
        Check("rehearsal", rehearsal, "the run does not work in small"),
        Check("plan", plan, f"the run does not fit {topology}, or cannot be planned"),
    )
