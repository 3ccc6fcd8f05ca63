"""Checks before anything is billed: commands that must succeed, and print why they do not."""

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from launch.job import Job, codea1
from launch.shell import Command, CommandFailed, Refused, run

PLAN_SECONDS = 3600  # a large preset has many programs to compile
REHEARSAL_SECONDS = 7200  # it takes minutes; each of its stages has its own limit


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
