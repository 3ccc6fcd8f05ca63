"""TPUs of a GKE cluster, through the JobSet API: the kubectl commands of each step."""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path

from launch import checks
from launch.checks import Check
from launch.platforms import OfSlices, Step, add_instead, add_slices
from launch.shell import Answer, Command, LaunchError, Refused, ask, report, retry, run, try_run

MANIFEST = Path(__file__).with_name("jobset.yaml")
ASK_SECONDS = 120
ABSENT, RUNNING, COMPLETED, FAILED = "Absent", "Running", "Completed", "Failed"


class GKE(OfSlices):
    """A run on the current kubectl cluster."""

    description = "TPUs of the current kubectl cluster, as a JobSet"
    steps = ("check", "manifest", "start", "logs", "status", "copy", "delete", "up")
    needs_bucket = ("check", "manifest", "start", "copy", "up")

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        """Adds the options of the Pods and their nodes."""
        parser.add_argument("--image", help="built with launch/Dockerfile, for tpu")
        parser.add_argument("--service-account", default="default", help="Kubernetes account with access to the bucket")
        add_slices(parser)
        parser.add_argument("--spot", action="store_true", help="use spot nodes")
        add_instead(parser, evaluation=False)

    @property
    def checks(self) -> tuple[Check, ...]:
        """The cluster, the bucket, and the run itself."""
        api = Command(("kubectl", "auth", "can-i", "create", "jobsets.jobset.x-k8s.io"), seconds=ASK_SECONDS)
        return (
            Check("cluster", api, _cluster_verdict),
            checks.bucket(self.job),
            *checks.training(self.job, self.slice.name),
        )

    # --- steps ----------------------------------------------------------------------------------------

    def manifest(self) -> Step:
        """Prints the JobSet, as YAML."""
        return Step((self._submit(),), lambda: print(self._manifest(), end=""))

    def start(self) -> Step:
        """Copies the data to the bucket and starts the run; an existing one is unchanged."""
        return Step((*self.job.upload(), self._submit()))

    def logs(self) -> Step:
        """Follows the first Pod's log, once it has started, until it ends."""
        pods = f"jobset.sigs.k8s.io/jobset-name={self.job.name},batch.kubernetes.io/job-completion-index=0"
        first = f"--selector={pods},jobset.sigs.k8s.io/job-index=0"
        words = ("kubectl", "logs", "--follow", "--container=codea1", "--tail=-1", "--pod-running-timeout=24h", first)
        return Step((Command(words, seconds=None),))

    def status(self) -> Step:
        """Shows the state of the JobSet."""
        return Step((self._describe(),), lambda: print(read_state(ask(self._describe()))))

    def delete(self) -> Step:
        """Deletes the JobSet, and waits for its Pods: they save and upload."""
        words = ("kubectl", "delete", f"jobset/{self.job.name}", "--ignore-not-found", "--cascade=foreground")
        return Step((Command(words, seconds=600),))  # twice their grace period

    def up(self) -> Step:
        """All steps. Raises LaunchError if the JobSet fails; it is deleted even then."""
        before = (self._describe(), *self.checking, *self.start().commands, self._describe())
        after = (self._describe(), *self.delete().commands, *self.copy().commands)
        return Step((*before, *self.logs().commands, *after), self._up)

    # --- commands, and what performs them -------------------------------------------------------------

    @property
    def _image(self) -> str:
        if self.options.image is None:
            raise Refused("--image: build and push one with launch/Dockerfile, and give its name")
        return self.options.image

    def _manifest(self) -> str:
        selector = {
            "cloud.google.com/gke-tpu-accelerator": self.slice.generation.gke,
            "cloud.google.com/gke-tpu-topology": self.slice.shape,
            **({"cloud.google.com/gke-spot": "true"} if self.options.spot else {}),
        }
        # JSON is YAML; its quotes keep values from being read as something else.
        values = {
            "name": self.job.name,
            "restarts": self.retries,
            "slices": self.job.slices,
            "hosts": self.slice.hosts,
            "chips": self.slice.chips_per_host,
            "service_account": self.options.service_account,
            "node_selector": selector,
            "image": self._image,
            "command": ["codea1", *self.job.arguments(*self.job.read_from_bucket())],
        }
        places = {"directory": self.job.directory, "folder": self.job.folder}
        texts = {key: json.dumps(value) for key, value in values.items()} | places
        return re.sub(r"\$\{(\w+)\}", lambda match: texts[match[1]], MANIFEST.read_text())

    def _submit(self) -> Command:
        return Command(("kubectl", "apply", "--filename=-"), stdin=self._manifest())

    def _describe(self) -> Command:
        words = ("kubectl", "get", f"jobset/{self.job.name}", "--ignore-not-found", "--output=json")
        return Command(words, seconds=ASK_SECONDS)

    def _up(self) -> None:
        poll = self.options.poll

        def state() -> str:
            return retry(lambda: read_state(ask(self._describe())), poll)

        if state() == ABSENT:
            self.perform_checks()
            run(*self.start().commands)
        try:
            while (now := state()) == RUNNING:
                try_run(*self.logs().commands)  # of the current Pods: a restart creates others
                time.sleep(poll)
            if now != COMPLETED:
                raise LaunchError(f"the JobSet is {now}: see the log above")
        finally:
            if not self.options.keep:
                self._release()
            try_run(*self.job.results())

    def _release(self) -> None:
        commands = self.delete().commands
        try:
            retry(lambda: run(*commands), self.options.poll)
        except BaseException:
            report(f"WARNING: nodes may still be BILLED; delete the JobSet: {commands[0]}")
            raise


def read_state(answer: Answer) -> str:
    """Completed, Failed, Running or Absent. Raises LaunchError if the state is unknown."""
    if answer.code != 0:
        raise LaunchError(f"the state of the JobSet is unknown: {answer.reason}")
    if not answer.out.strip():
        return ABSENT
    conditions = json.loads(answer.out).get("status", {}).get("conditions", [])
    true = {condition["type"] for condition in conditions if condition["status"] == "True"}
    return next((state for state in (COMPLETED, FAILED) if state in true), RUNNING)


def _cluster_verdict(answer: Answer) -> str | None:
    reason = answer.err.strip() or answer.out.strip()  # kubectl prints "no" on standard output
    fix = "kubectl must point to a cluster with the JobSet API; see README"
    return None if answer.code == 0 else f"{reason}: {fix}"
