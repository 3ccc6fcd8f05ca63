"""Cloud TPU VMs: takes a run from nothing to its results, through preemptions and failures, and cleans up.

Slices are queued resources, which work for on-demand, spot and reserved capacity, and for one slice or several.
"""

import argparse
import json
import shlex
import time
from dataclasses import dataclass

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, SandboxConfig
from launch.job import Check, Job, perform, training, tree
from launch.shell import (
    ATTEMPTS,
    Answer,
    Command,
    CommandFailed,
    LaunchError,
    Refused,
    Step,
    ask,
    report,
    retry,
    run,
    try_run,
)

SOURCE = "source.tar.gz"
WORKER = "launch/worker.sh"
ASK_SECONDS = 120
CREATE_SECONDS = 600
INSTALL_SECONDS = 3600
STOP_SECONDS = 420  # worker.sh waits 300, and many workers must be reached

ABSENT, ACTIVE, FAILED, SUSPENDED = "ABSENT", "ACTIVE", "FAILED", "SUSPENDED"
# States of a queued resource whose slices are gone, or going.
PREEMPTED = ("SUSPENDING", SUSPENDED, "DELETING", ABSENT)

# What workers report about training.
_RUNNING = "running"
_DONE = "exit 0"
_BAD_INPUT = "exit 2"  # would be repeated on every try

_DELETIONS = 40  # a slice that is being created cannot be deleted yet
# A preempted machine does not answer at all: ssh must notice by itself.
_ALIVE = ("--ssh-flag=-oServerAliveInterval=15", "--ssh-flag=-oServerAliveCountMax=4")


# By kind: its name in types of accelerators, what a chip counts for there, and its runtime
# (cloud.google.com/tpu/docs/runtimes).
KINDS = {
    "v4": ("v4", 2, "tpu-ubuntu2204-base"),
    "v5e": ("v5litepod", 1, "v2-alpha-tpuv5-lite"),
    "v5p": ("v5p", 2, "v2-alpha-tpuv5"),
    "v6e": ("v6e", 1, "v2-alpha-tpuv6e"),
}

STEPS = ("check", "create", "install", "start", "logs", "status", "stop", "copy", "delete", "up")


@dataclass(frozen=True)
class Slice:
    name: str
    accelerator_type: str
    runtime: str


def find_slice(name: str) -> Slice:
    """The slice called `name`, as in v5e:4x4. Raises UserError if it is unknown, Refused if the API lacks it."""
    hardware = find_hardware(name)
    if hardware.kind not in KINDS:
        raise Refused(f"--tpu {name}: the Cloud TPU API has {', '.join(KINDS)}")
    accelerator, units, runtime = KINDS[hardware.kind]
    return Slice(name, f"{accelerator}-{hardware.devices // hardware.chip.cores * units}", runtime)


class CloudTPU:
    """The slices of a run in a zone of a project. Each of STEPS is the method of that name."""

    def __init__(self, options: argparse.Namespace, job: Job, config: Config | None) -> None:
        self.options, self.job, self.config = options, job, config
        if not (options.project and options.zone):
            raise Refused("give --project and --zone, or set CLOUDSDK_CORE_PROJECT and CLOUDSDK_COMPUTE_ZONE")
        self._where = (f"--project={options.project}", f"--zone={options.zone}")

    @property
    def checks(self) -> tuple[Check, ...]:
        return tree(), *training(self.job, self.slice.name)

    @property
    def slice(self) -> Slice:
        name = self.options.tpu or (self.config.hardware if self.config else None)
        if name is None:
            raise Refused("--tpu: give a slice, as in v5e:4x4, or a preset that is made for one")
        return find_slice(name)

    @property
    def retries(self) -> int:
        """How often failed training is restarted; a machine that fails its tests would fail them again."""
        return 0 if self.options.proves else self.options.retries

    # --- steps ----------------------------------------------------------------------------------------

    def check(self) -> Step:
        return Step([check.command for check in self.checks], lambda: perform(self.checks, self.options.skip))

    def create(self) -> Step:
        return Step((self._request(), self._describe()), self._acquire)

    def install(self) -> Step:
        """Puts the tree and its packages on every worker; tries the jail if the run needs it."""
        name, options = self.job.name, self.options
        folder = f".cache/launch/{name}"  # of its own: several may be launched at once
        copied = (f"{folder}/{SOURCE}", WORKER, *options.send, f"{name}:")
        sandbox = self.config.sandbox if self.config else SandboxConfig()
        needs_jail = sandbox.backend in ("auto", "nsjail") and sandbox.fallback == "none"
        copy = (*_queued("scp", *copied), *self._reach("all"), "--recurse", *options.ssh_flag, "--quiet")
        return Step(
            (
                Command(("mkdir", "-p", folder)),
                Command(("git", "archive", "--format=tar.gz", f"--output={folder}/{SOURCE}", "HEAD")),
                Command(copy, seconds=3600),
                self._on_workers("install", "tpu", seconds=INSTALL_SECONDS),
                *((self._on_workers("jail"),) if needs_jail else ()),
            )
        )

    def start(self) -> Step:
        return Step((*self.job.upload(), self._train()))

    def logs(self) -> Step:
        return Step((self._on_workers("logs", which="0", seconds=None),))

    def status(self) -> Step:
        return Step((self._describe(), self._ask_workers()))

    def stop(self) -> Step:
        return Step((self._on_workers("stop", seconds=STOP_SECONDS),))

    def copy(self) -> Step:
        return Step(self.job.results())

    def delete(self) -> Step:
        return Step((self._delete(), self._describe()), self._release)

    def up(self) -> Step:
        """All steps. Raises LaunchError if training cannot finish; what is billed is deleted even then."""
        before = (self._describe(), *self.check().commands, *self.job.upload(), *self.create().commands)
        trained = (*self.install().commands, self._train(), *self.logs().commands, *self.status().commands)
        after = (*self.stop().commands, *self.copy().commands, *self.delete().commands)
        return Step((*before, *trained, *after), self._up)

    # --- commands -------------------------------------------------------------------------------------

    def _request(self) -> Command:
        name, slices, options = self.job.name, self.job.slices, self.options
        nodes = (f"--node-id={name}",) if slices == 1 else (f"--node-count={slices}", f"--node-prefix={name}")
        words = (
            *_queued("create", name),
            *self._where,
            f"--accelerator-type={self.slice.accelerator_type}",
            f"--runtime-version={self.slice.runtime}",
            *nodes,
            *(("--spot",) if options.spot else ()),
            *options.create_flag,
            "--quiet",
        )
        return Command(words, seconds=CREATE_SECONDS)

    def _describe(self) -> Command:
        return Command((*_queued("describe", self.job.name), *self._where, "--format=json"), seconds=ASK_SECONDS)

    def _delete(self) -> Command:
        return Command((*_queued("delete", self.job.name), *self._where, "--force", "--quiet"), seconds=CREATE_SECONDS)

    def _train(self) -> Command:
        job = self.job
        copied = (f"{source.key}={copy}" for source, copy in job.copies.items())
        return self._on_workers("start", job.folder, job.directory, *job.arguments(*copied))

    def _ask_workers(self) -> Command:
        return self._on_workers("status", seconds=ASK_SECONDS)

    def _on_workers(self, *words: str, which: str = "all", seconds: float | None = 600) -> Command:
        command = f"--command={shlex.join(('bash', 'worker.sh', *words))}"
        ssh = (*_queued("ssh", self.job.name), *self._reach(which), command)
        return Command((*ssh, *_ALIVE, *self.options.ssh_flag, "--quiet"), seconds=seconds)

    def _reach(self, which: str) -> tuple[str, ...]:
        return (*self._where, f"--node={which}", f"--worker={which}")

    # --- supervision ----------------------------------------------------------------------------------

    def _up(self) -> None:
        if self._state() == ABSENT:
            perform(self.checks, self.options.skip)
        try:
            self._supervise()
        finally:
            self._finish()

    def _supervise(self) -> None:
        run(*self.job.upload())
        failures = 0
        while True:
            self._acquire()
            try:
                run(*self.install().commands, self._train())
                ends = self._follow()
            except LaunchError as error:
                ends = frozenset({str(error)})
            if ends == {_DONE}:
                return
            reason = ", ".join(sorted(ends - {_DONE}))
            if self._state() in PREEMPTED:
                report(f"the slices were preempted ({reason}); new ones resume from the last checkpoint")
                continue
            failures += 1
            if failures > self.retries or _BAD_INPUT in ends:
                raise LaunchError(f"training failed: {reason}")
            report(f"training failed ({reason}); it resumes from the last checkpoint, try {failures} of {self.retries}")

    def _acquire(self) -> None:
        """Waits for the slices; requests them if needed, and again if they were preempted."""
        asked = False
        while (state := self._state()) != ACTIVE:
            if state == ABSENT:
                run(self._request())
                asked = True
            elif state == FAILED and asked:
                raise LaunchError(f"the request for slices failed: {ask(self._describe()).out.strip()}")
            elif state in (SUSPENDED, FAILED):  # of an earlier request
                self._release()
            else:
                report(f"slices: {state}")
                time.sleep(self.options.poll)

    def _release(self) -> None:
        """Deletes the slices and their request, and waits until they are gone. Raises LaunchError if they remain."""
        for _ in range(_DELETIONS):
            if self._state() == ABSENT:
                return
            try:
                run(self._delete())
            except CommandFailed as error:
                report(f"not deleted yet: {error}")
                time.sleep(self.options.poll)
        raise LaunchError("the slices were not deleted")

    def _state(self) -> str:
        return retry(lambda: read_state(ask(self._describe())), self.options.poll)

    def _follow(self) -> frozenset[str]:
        """Shows the log until training has ended on all workers. Returns how it ended."""
        followed, misses = False, 0
        while True:
            followed = followed or try_run(*self.logs().commands)
            try:
                reported = read_training(ask(self._ask_workers()))
            except LaunchError as error:
                misses += 1
                if misses == ATTEMPTS or self._state() != ACTIVE:
                    raise
                report(str(error))
            else:
                misses = 0
                if _RUNNING not in reported:
                    return reported
            time.sleep(self.options.poll)

    def _finish(self) -> None:
        try:
            state = self._state()
            if state == ACTIVE:
                try_run(*self.stop().commands)
            if state in (ACTIVE, *PREEMPTED):
                try_run(*self.job.results())
            if not self.options.keep:
                self._release()
        except BaseException:
            report(f"WARNING: the slices may still be BILLED; delete them: {self._delete()}")
            raise


def read_state(answer: Answer) -> str:
    """The state of a queued resource, ABSENT if there is none. Raises LaunchError if the state is unknown."""
    if answer.code == 0:
        return json.loads(answer.out)["state"]["state"]
    if "NOT_FOUND" in answer.err:
        return ABSENT
    raise LaunchError(f"the state of the slices is unknown: {answer.reason}")


def read_training(answer: Answer) -> frozenset[str]:
    """What the workers report: running, exit CODE, lost or none. Raises LaunchError if they cannot be reached."""
    reported = frozenset(
        line.removeprefix("training: ") for line in answer.out.splitlines() if line.startswith("training: ")
    )
    if answer.code != 0 or not reported:
        raise LaunchError(f"workers cannot be reached: {answer.reason}")
    return reported


def _queued(verb: str, *words: str) -> tuple[str, ...]:
    return ("gcloud", "compute", "tpus", "queued-resources", verb, *words)
