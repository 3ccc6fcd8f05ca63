"""Checks before anything is billed. Each is a few commands, and a verdict on the answer of the last one."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from codea1_jax.devices.chips import find_hardware
from codea1_jax.training.sources import Source
from data_pipeline.storage import BUCKET
from launch.hardware import Slice
from launch.job import Job
from launch.shell import Answer, Command, Refused, ask

# Multi-regions, and the prefix of the regions in them. Dual-regions have other names, and are not checked.
_MULTI_REGIONS = {"us": "us-", "eu": "europe-", "asia": "asia-"}


@dataclass(frozen=True)
class Check:
    """`verdict` takes the answer of the last command, or of the first that fails: why it is a problem, or None.

    finding: from the answer of a check that is passed, what is worth knowing.
    """

    name: str
    commands: tuple[Command, ...]
    verdict: Callable[[Answer], str | None]
    finding: Callable[[Answer], str] = lambda _answer: ""


def perform(checks: Sequence[Check], skip: Collection[str]) -> None:
    """Performs all checks and prints their results. Raises Refused if one fails, or if `skip` has an unknown name."""
    names = dict.fromkeys(check.name for check in checks)
    unknown = set(skip) - names.keys()
    if unknown:
        raise Refused(f"--skip {unknown.pop()}: the checks are {', '.join(names)}")
    failed = []
    for check in checks:
        if check.name in skip:
            print(f"skip {check.name}", file=sys.stderr)
            continue
        answer = _last_answer(check.commands)
        reason = check.verdict(answer)
        line = f"ok   {check.name} {check.finding(answer)}" if reason is None else f"FAIL {check.name}: {reason}"
        print(line.rstrip(), file=sys.stderr, flush=True)
        failed += [] if reason is None else [check.name]
    if failed:
        why = ", ".join(dict.fromkeys(failed))
        raise Refused(f"refused by {why}; nothing was started (--skip NAME skips a check)")


def _last_answer(commands: Sequence[Command]) -> Answer:
    for command in commands:
        answer = ask(command)
        if answer.code != 0:
            break
    return answer


def _unless(fix: str) -> Callable[[Answer], str | None]:
    """The verdict of a command that has to succeed."""
    return lambda answer: None if answer.code == 0 else f"{answer.reason}; {fix}"


def tree() -> Check:
    """The tree has no uncommitted changes, because workers get the last commit."""
    command = Command(("git", "status", "--porcelain", "--untracked-files=no"))

    def verdict(answer: Answer) -> str | None:
        if answer.code != 0:
            return f"{answer.reason}; launch from a clone"
        if not answer.out:
            return None
        return f"uncommitted changes would not reach the workers ({answer.out.split()[1]}, ...); commit them"

    return Check("tree", (command,), verdict)


def data(sources: Iterable[Source]) -> tuple[Check, ...]:
    """All questions exist."""
    return tuple(Check("data", (_look_for(source.place),), partial(_missing, source)) for source in sources)


def _look_for(place: str) -> Command:
    if place.startswith(BUCKET):
        return Command(("gcloud", "storage", "ls", place))
    return Command(("bash", "-c", 'compgen -G "$1"', "look", place))  # a path, or a pattern


def _missing(source: Source, answer: Answer) -> str | None:
    if answer.code == 0:
        return None
    if source.command is None:
        return f"{source.key}: {source.place}: no such file"
    return f"{source.key}: {source.place} does not exist; create it: {source.command}"


def plan(job: Job, topology: str) -> tuple[Check, ...]:
    """The run fits the memory of the devices. Without training there is no plan."""
    if not job.trains:
        return ()

    def verdict(answer: Answer) -> str | None:
        if answer.code == 1:
            lines = (answer.out.strip() or answer.reason).splitlines()
            conclusion = next((line for line in lines if "does not fit" in line), lines[-1])
            return f"it does not fit {topology} ({conclusion})"
        return None if answer.code == 0 else answer.reason

    return (Check("plan", (job.plan(topology),), verdict, lambda answer: expected(answer.out, topology, job)),)


def expected(plan: str, topology: str, job: Job) -> str:
    """The hours, and with a price the money, that a plan expects of the run; nothing if it does not say."""
    found = re.search(r"a run of (\d+) steps: ([\d.]+) h expected", plan)
    if found is None:
        return ""
    hardware, hours = find_hardware(topology), float(found[2])
    chips = hardware.devices // hardware.chip.cores
    said = f"{found[1]} steps in {hours:g} h on {topology}, by the forecast: {hours * chips:,.0f} chip-hours"
    if job.slices > 1:
        return f"{said}; {job.slices} slices are faster"
    price = job.price_per_hour
    return said if price is None else f"{said}, about {hours * price:,.0f} at {price:g} per hour"


def rehearsal(job: Job, topology: str) -> tuple[Check, ...]:
    """The run begins, stops, resumes, ends and exports: in small, on this machine."""
    if not job.trains:
        return ()

    def verdict(answer: Answer) -> str | None:
        failed = [line for line in answer.err.splitlines() if line.startswith("FAIL ")]
        return None if answer.code == 0 else (failed[-1].removeprefix("FAIL ") if failed else answer.reason)

    return (Check("rehearsal", (job.rehearsal(topology),), verdict),)


def selftest(job: Job) -> Check:
    """This machine's devices compute, keep and resume what they should, and about as fast as is forecast."""

    def verdict(answer: Answer) -> str | None:
        failed = [line for line in answer.out.splitlines() if line.startswith("FAIL ")]
        return None if answer.code == 0 else (failed[0].removeprefix("FAIL ") if failed else answer.reason)

    return Check("selftest", (job.selftest(),), verdict)


def zone(project: str, zone: str, slice_: Slice) -> Check:
    """The zone offers such slices, and gcloud has access."""
    words = ("gcloud", "compute", "tpus", "accelerator-types", "describe", slice_.accelerator_type)
    command = Command((*words, f"--project={project}", f"--zone={zone}", "--format=value(type)"))
    return Check("zone", (command,), _unless(f"where it is offered: {' '.join(words[:4])} list --zone=-"))


def quota(project: str, zone: str, slice_: Slice, slices: int, spot: bool) -> Check:
    """The project has enough quota in the zone."""
    name = slice_.generation.spot_quota if spot else slice_.generation.quota
    words = ("gcloud", "beta", "quotas", "info", "describe", name, "--service=tpu.googleapis.com")
    command = Command((*words, f"--project={project}", "--format=json"))
    needed = slice_.units * slices
    fix = f"ask for more of {name}: https://console.cloud.google.com/iam-admin/quotas?project={project}"

    def verdict(answer: Answer) -> str | None:
        if answer.code != 0:
            return f"{answer.reason}; gcloud services enable cloudquotas.googleapis.com --project={project}"
        granted = granted_quota(json.loads(answer.out), zone)
        # -1: unlimited
        return None if granted == -1 or granted >= needed else f"{granted} granted in {zone}, {needed} needed; {fix}"

    return Check("quota", (command,), verdict)


def granted_quota(info: dict, zone: str) -> int:
    """What a QuotaInfo of Cloud Quotas grants in a zone; 0 for a zone that it does not list."""
    for entry in info.get("dimensionsInfos", []):
        if zone in (*entry.get("applicableLocations", []), entry.get("dimensions", {}).get("zone")):
            return int(entry.get("details", {}).get("value", 0))
    return 0


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

    return Check("bucket", (command,), verdict)


def is_near(location: str, zone: str) -> bool:
    """Whether a bucket's location includes a zone's region."""
    region = zone.rpartition("-")[0]
    if location in _MULTI_REGIONS:
        return region.startswith(_MULTI_REGIONS[location])
    return location == region or "-" not in location


def writable(job: Job) -> Check:
    """This account can write and delete in the run's folder."""
    probe = f"{job.folder}/.writable"
    commands = (
        Command(("gcloud", "storage", "cp", "-", probe), stdin="written to check access\n"),
        Command(("gcloud", "storage", "rm", probe)),
    )
    fix = "grant roles/storage.objectAdmin on the bucket to this account, and to the workers' service account"
    return Check("writable", commands, _unless(fix))


def judge(job: Job, fix: str) -> Check:
    """The configured judge answers from here, and judges correctly."""
    command = Command((sys.executable, "-m", "launch.judge", job.preset, *job.overrides))
    return Check("judge", (command,), _unless(fix))
