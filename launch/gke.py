"""TPUs of a GKE cluster, through the JobSet API: the kubectl commands of each step. Pure, except for `up`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from launch import checks
from launch.checks import Check
from launch.hardware import Slice, required
from launch.job import Job
from launch.shell import Answer, Command, LaunchError, Refused, ask, run
from launch.supervise import Patience, report, retry, try_run

MANIFEST = Path(__file__).with_name("jobset.yaml")
ASK_SECONDS = 120
ABSENT, RUNNING, COMPLETED, FAILED = "Absent", "Running", "Completed", "Failed"


@dataclass(frozen=True)
class Workload:
    """A run on the current kubectl cluster."""

    job: Job
    slice: Slice | None = None
    image: str | None = None
    service_account: str = "default"
    spot: bool = False
    restarts: int = 3

    @property
    def shape(self) -> Slice:
        """The slice. Raises Refused if none was given."""
        return required(self.slice)

    @property
    def container(self) -> str:
        """The image. Raises Refused if none was given."""
        if self.image is None:
            raise Refused("--image: build and push one with launch/Dockerfile, and give its name")
        return self.image


def check(workload: Workload) -> tuple[Check, ...]:
    """What must hold before anything is started."""
    api = Command(("kubectl", "auth", "can-i", "create", "jobsets.jobset.x-k8s.io"), seconds=ASK_SECONDS)
    return (
        Check("cluster", api, _cluster_verdict),
        *((_image(workload.container),) if "docker.pkg.dev/" in workload.container else ()),
        checks.bucket(workload.job),
        *checks.training(workload.job, workload.shape.name),
    )


def manifest(workload: Workload) -> str:
    """The JobSet, as YAML."""
    selector = {
        "cloud.google.com/gke-tpu-accelerator": workload.shape.generation.gke,
        "cloud.google.com/gke-tpu-topology": workload.shape.shape,
        **({"cloud.google.com/gke-spot": "true"} if workload.spot else {}),
    }
    # JSON is YAML; its quotes keep values from being read as something else.
    values = {
        "name": workload.job.name,
        "restarts": workload.restarts,
        "slices": workload.job.slices,
        "hosts": workload.shape.hosts,
        "chips": workload.shape.chips_per_host,
        "service_account": workload.service_account,
        "node_selector": selector,
        "image": workload.container,
        "command": ["codea1", *workload.job.arguments(*workload.job.read_from_bucket())],
    }
    places = {"directory": workload.job.directory, "folder": workload.job.folder}
    texts = {key: json.dumps(value) for key, value in values.items()} | places
    return re.sub(r"\$\{(\w+)\}", lambda match: texts[match[1]], MANIFEST.read_text())


def submit(workload: Workload) -> Command:
    """Starts the run; an existing one is unchanged."""
    return Command(("kubectl", "apply", "--filename=-"), stdin=manifest(workload))


def describe(workload: Workload) -> Command:
    """Asks for the state of the JobSet; `read_state` reads the answer."""
    words = ("kubectl", "get", f"jobset/{workload.job.name}", "--ignore-not-found", "--output=json")
    return Command(words, seconds=ASK_SECONDS)


def read_state(answer: Answer) -> str:
    """Completed, Failed, Running or Absent. Raises LaunchError if the state is unknown."""
    if answer.code != 0:
        raise LaunchError(f"the state of the JobSet is unknown: {answer.reason}")
    if not answer.out.strip():
        return ABSENT
    conditions = json.loads(answer.out).get("status", {}).get("conditions", [])
    true = {condition["type"] for condition in conditions if condition["status"] == "True"}
    return next((state for state in (COMPLETED, FAILED) if state in true), RUNNING)


def logs(workload: Workload) -> Command:
    """Follows the first Pod's log, once it has started, until it ends."""
    pod = f"--selector=jobset.sigs.k8s.io/jobset-name={workload.job.name},batch.kubernetes.io/job-completion-index=0"
    first = f"{pod},jobset.sigs.k8s.io/job-index=0"
    words = ("kubectl", "logs", "--follow", "--container=codea1", "--tail=-1", "--pod-running-timeout=24h", first)
    return Command(words, seconds=None)


def delete(workload: Workload) -> Command:
    """Deletes the JobSet, and waits for its Pods: they save and upload."""
    words = ("kubectl", "delete", f"jobset/{workload.job.name}", "--ignore-not-found", "--cascade=foreground")
    return Command(words, seconds=600)  # twice their grace period


def up(workload: Workload, patience: Patience, skip: Collection[str], keep: bool) -> None:
    """All steps. Raises LaunchError if the JobSet fails; it is deleted even then."""
    if _state(workload, patience) == ABSENT:
        checks.perform(check(workload), skip)
        run(*workload.job.upload(), submit(workload))
    try:
        while (state := _state(workload, patience)) == RUNNING:
            try_run(logs(workload))  # of the current Pods: a restart creates others
            time.sleep(patience.poll)
        if state != COMPLETED:
            raise LaunchError(f"the JobSet is {state}: see the log above")
    finally:
        if not keep:
            _release(workload, patience)
        try_run(*workload.job.results())


def _state(workload: Workload, patience: Patience) -> str:
    return retry(lambda: read_state(ask(describe(workload))), patience)


def _release(workload: Workload, patience: Patience) -> None:
    try:
        retry(lambda: run(delete(workload)), patience)
    except BaseException:
        report(f"WARNING: nodes may still be BILLED; delete the JobSet: {delete(workload)}")
        raise


def _cluster_verdict(answer: Answer) -> str | None:
    if answer.code == 0:
        return None
    # kubectl prints "no" on standard output
    return (
        f"{answer.err.strip() or answer.out.strip()}: kubectl must point to a cluster with the JobSet API; see README"
    )


def _image(image: str) -> Check:
    command = Command(("gcloud", "artifacts", "docker", "images", "describe", image, "--format=value(image_summary)"))
    fix = f"docker build -f launch/Dockerfile --build-arg EXTRA=tpu -t {image} . && docker push {image}"
    return Check("image", command, checks.or_fix(fix))
