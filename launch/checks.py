"""Checks before anything is billed. Each is a command, and a verdict on its answer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from launch.job import Job, codea1
from launch.shell import Answer, Command, Refused, ask

PLAN_SECONDS = 3600  # a large preset has many programs to compile
REHEARSAL_SECONDS = 7200  # it takes minutes; each of its stages has its own limit

# Multi-regions, and the prefix of the regions in them. Dual-regions have other names, and are not checked.
_MULTI_REGIONS = {"us": "us-", "eu": "europe-", "asia": "asia-"}


def succeeds(answer: Answer) -> str | None:
    """The verdict of a command that has to succeed."""
    return None if answer.code == 0 else answer.reason


@dataclass(frozen=True)
class Check:
    """`verdict` takes the command's answer: why it is a problem, or None.

    finding: from the answer of a check that is passed, what is worth knowing.
    """

    name: str
    command: Command
    verdict: Callable[[Answer], str | None] = succeeds
    finding: Callable[[Answer], str] = lambda _answer: ""


def perform(checks: Sequence[Check], skip: Collection[str]) -> None:
    """Performs all checks and prints their results. Raises Refused if one fails, or if `skip` has an unknown name."""
    names = [check.name for check in checks]
    unknown = set(skip).difference(names)
    if unknown:
        raise Refused(f"--skip {unknown.pop()}: the checks are {', '.join(names)}")
    failed = []
    for check in checks:
        if check.name in skip:
            print(f"skip {check.name}", file=sys.stderr)
            continue
        answer = ask(check.command)
        reason = check.verdict(answer)
        line = f"ok   {check.name} {check.finding(answer)}" if reason is None else f"FAIL {check.name}: {reason}"
        print(line.rstrip(), file=sys.stderr, flush=True)
        failed += [] if reason is None else [check.name]
    if failed:
        raise Refused(f"refused by {', '.join(failed)}; nothing was started (--skip NAME skips a check)")


def rehearses(answer: Answer) -> str | None:
    """The verdict of a rehearsal, which prints its own checks, each that fails as "FAIL NAME: REASON"."""
    failed = [line for line in answer.err.splitlines() if line.startswith("FAIL ")]
    return None if answer.code == 0 else (failed[0].removeprefix("FAIL ") if failed else answer.reason)


def tree() -> Check:
    """The tree has no uncommitted changes, because workers get the last commit."""

    def verdict(answer: Answer) -> str | None:
        if answer.code != 0:
            return f"{answer.reason}; launch from a clone"
        if not answer.out:
            return None
        return f"uncommitted changes would not reach the workers ({answer.out.split()[1]}, ...); commit them"

    return Check("tree", Command(("git", "status", "--porcelain", "--untracked-files=no")), verdict)


def training(job: Job, topology: str) -> tuple[Check, ...]:
    """The run works in small on this machine, with its data, judge and bucket; and it fits one slice, or set of GPUs.

    Without training there is nothing to rehearse or to plan.
    """
    if not job.trains:
        return ()
    saved = () if job.bucket is None else (f"checkpoint.directory={job.folder}/checkpoints",)
    rehearse = ("rehearse", job.preset, *job.overrides, *saved, "--topology", topology)
    rehearsal = Command(codea1(*rehearse, "--directory", f"rehearsals/{job.name}"), seconds=REHEARSAL_SECONDS)
    plan = Command(codea1("plan", job.preset, *job.overrides, "--topology", topology), seconds=PLAN_SECONDS)

    def fits(answer: Answer) -> str | None:
        if answer.code == 1:
            lines = (answer.out.strip() or answer.reason).splitlines()
            conclusion = next((line for line in lines if "does not fit" in line), lines[-1])
            return f"it does not fit {topology} ({conclusion})"
        return succeeds(answer)

    def hours(answer: Answer) -> str:
        return next((line for line in answer.out.splitlines() if line.startswith("a run of ")), "")

    return Check("rehearsal", rehearsal, rehearses), Check("plan", plan, fits, hours)


def bucket(job: Job, zone: str | None = None) -> Check:
    """The bucket exists near the zone: traffic between regions is slow, and billed."""
    name = str(job.bucket).removeprefix("gs://").partition("/")[0]
    command = Command(("gcloud", "storage", "buckets", "describe", f"gs://{name}", "--format=value(location)"))

    def verdict(answer: Answer) -> str | None:
        if answer.code != 0:
            return f"{answer.reason}; create it: gcloud storage buckets create gs://{name} --location=REGION"
        location = answer.out.strip().lower()
        if zone is None or is_near(location, zone):
            return None
        return f"gs://{name} is in {location}, the slices would be in {zone}; use a bucket in their region"

    return Check("bucket", command, verdict)


def is_near(location: str, zone: str) -> bool:
    """Whether a bucket's location includes a zone's region."""
    region = zone.rpartition("-")[0]
    if location in _MULTI_REGIONS:
        return region.startswith(_MULTI_REGIONS[location])
    return location == region or "-" not in location
