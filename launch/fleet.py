"""A fleet of judges: `python -m launch judge`, described in docs/judge.md."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import ClassVar

from launch import checks
from launch.checks import Check
from launch.platforms import Step
from launch.shell import Command, LaunchError, Refused, ask, report, run

MANIFESTS = "launch/judge"
SCRIPT = f"{MANIFESTS}/array.sbatch"
OVERLAY = ".cache/launch/judge"  # below the directory that is launched from
ASK_SECONDS = 120
ROLLOUT_SECONDS = 900  # nodes may have to be made
END_SECONDS = 70  # requests in progress have 60


class Fleet:
    """Where the replicas run. Each of `steps` is the method of that name."""

    steps: ClassVar[tuple[str, ...]] = ("up", "status", "down")

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        """Adds those of this kind."""
        parser.add_argument("--port", type=int, default=8787, metavar="N", help="default: %(default)s")


class Kubernetes(Fleet):
    """Pods of the current kubectl cluster."""

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        """Adds the image and the bounds of the autoscaler."""
        parser.add_argument("--image", help="built with launch/Dockerfile, for the judge")
        parser.add_argument("--max-replicas", type=int, default=10, metavar="N", help="most that the queue may ask for")

    def up(self) -> Step:
        """Applies the manifests, with this image and these numbers, and waits for the replicas."""
        if self.options.serve:
            raise Refused(f"--: on Kubernetes the options of the service stand in {MANIFESTS}/judge.yaml")
        image, numbers = self.options.image, (self.options.replicas, self.options.max_replicas)
        if image is None:
            raise Refused("--image: build and push one with launch/Dockerfile, and give its name")
        if numbers[0] > numbers[1]:
            raise Refused(f"--max-replicas: {numbers[1]} are fewer than the {numbers[0]} of --replicas")
        name, _, tag = image.rpartition(":") if ":" in image.rpartition("/")[2] else (image, "", "latest")
        patch = [
            {"op": "replace", "path": f"/spec/{key}", "value": number}
            for key, number in zip(("minReplicas", "maxReplicas"), numbers, strict=True)
        ]
        overlay = {
            "resources": [os.path.relpath(MANIFESTS, OVERLAY)],
            "images": [{"name": "codea1-judge", "newName": name, "newTag": tag}],
            "patches": [{"target": {"kind": "HorizontalPodAutoscaler"}, "patch": json.dumps(patch)}],
        }
        secret = Command(("kubectl", "get", "secret/judge", "--output=name"), seconds=ASK_SECONDS)
        fix = checks.or_fix("kubectl create secret generic judge --from-file=token=token.txt")
        commands = (
            Command(("mkdir", "-p", OVERLAY)),
            Command(("tee", f"{OVERLAY}/kustomization.yaml"), stdin=f"{json.dumps(overlay, indent=1)}\n"),
            Command(("kubectl", "apply", f"--kustomize={OVERLAY}")),
            Command(("kubectl", "rollout", "status", "deployment/judge"), seconds=ROLLOUT_SECONDS),
        )

        def up() -> None:
            checks.perform((Check("token", secret, fix),), ())
            run(*commands)
            report("sandbox.backend=http 'sandbox.addresses=[http://judge:8787]', in the namespace of the fleet")

        return Step((secret, *commands), up)

    def status(self) -> Step:
        """Shows the Pods, and how many the queue asks for."""
        return Step((Command(("kubectl", "get", "pods,hpa", "--selector=app=judge"), seconds=ASK_SECONDS),))

    def down(self) -> Step:
        """Deletes everything but the token."""
        return Step((Command(("kubectl", "delete", f"--kustomize={MANIFESTS}", "--ignore-not-found")),))


class Slurm(Fleet):
    """A node of a SLURM cluster for each."""

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        """Adds the token, the port, and what sbatch and the service are given."""
        parser.add_argument("--token-file", help="where all nodes can read it")
        parser.add_argument("--sbatch-flag", action="append", default=[], metavar="FLAG", help="passed to sbatch")
        Fleet.add_options(parser)

    def up(self) -> Step:
        """Queues an array of jobs, unless one is queued already."""
        if self.options.token_file is None:
            raise Refused("--token-file: name a file with a token, or all who reach the nodes could run programs there")
        words = (
            *("sbatch", "--parsable", "--job-name=judge", f"--array=1-{self.options.replicas}"),
            *("--output=runs/judge-%a.log", *self.options.sbatch_flag, SCRIPT, sys.executable),
            *(f"--port={self.options.port}", f"--token-file={self.options.token_file}", *self.options.serve),
        )
        look = Command(("squeue", "--me", "--name=judge", "--noheader"), seconds=ASK_SECONDS)
        queue = (Command(("mkdir", "-p", "runs")), Command(words, seconds=ASK_SECONDS))

        def up() -> None:
            answer = ask(look)
            if answer.code == 0 and answer.out.strip():
                report(f"already queued: {answer.out.strip()}")
            else:
                run(*queue)

        return Step((look, *queue), up)

    def status(self) -> Step:
        """Shows the addresses of those that run."""
        words = ("squeue", "--me", "--name=judge", "--noheader", "--states=RUNNING")
        return Step((Command((*words, f"--format=http://%N:{self.options.port}"), seconds=ASK_SECONDS),))

    def down(self) -> Step:
        """Cancels the jobs."""
        return Step((Command(("scancel", "--me", "--name=judge"), seconds=ASK_SECONDS),))


class Local(Fleet):
    """Processes of this host, at one port after another, until Ctrl-C."""

    steps = ("up",)

    def up(self) -> Step:
        """Starts them, prints their addresses, and starts those that die again."""
        count, port = self.options.replicas, self.options.port
        workers = max(1, (os.cpu_count() or 1) // count)
        serve = (sys.executable, "-m", "codea1_judge", "serve", f"--workers={workers}")
        commands = {
            f"http://127.0.0.1:{number}": Command((*serve, f"--port={number}", *self.options.serve), seconds=None)
            for number in range(port, port + count)
        }
        return Step(tuple(commands.values()), lambda: _keep(commands))


KINDS: Mapping[str, type[Fleet]] = {"gke": Kubernetes, "slurm": Slurm, "local": Local}


def step(arguments: Sequence[str]) -> tuple[argparse.Namespace, Step]:
    """The options, and the step that they ask for. Raises Refused."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    arguments, serve = arguments[:end], arguments[end + 1 :]
    common = argparse.ArgumentParser(prog="python -m launch judge", allow_abbrev=False, add_help=False)
    common.add_argument("--kind", choices=KINDS, required=True, help="Kubernetes, SLURM, or processes of this host")
    kind = KINDS[common.parse_known_args(arguments)[0].kind]
    parser = argparse.ArgumentParser(
        prog=common.prog,
        allow_abbrev=False,
        parents=[common],
        description=f"Judges: {kind.__doc__}",
        epilog="What follows -- is given to `codea1-judge serve`; on Kubernetes launch/judge holds that.",
    )
    parser.add_argument("step", choices=kind.steps)
    parser.add_argument("--replicas", type=int, default=2, metavar="N", help="judges; on Kubernetes at least")
    parser.add_argument("--dry-run", action="store_true", help="print the commands of the step without running them")
    kind.add_options(parser)
    parser.set_defaults(serve=serve)
    options = parser.parse_args(arguments)
    if options.replicas < 1:
        raise Refused(f"--replicas: a fleet has at least one judge, not {options.replicas}")
    return options, getattr(kind(options), options.step)()


def _keep(commands: Mapping[str, Command]) -> None:
    """Keeps a process running for each address, until interrupted. Raises LaunchError if one cannot start."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    ready = False
    try:
        while True:
            for address, command in commands.items():
                process = processes.get(address)
                if process is not None and process.poll() is not None:
                    if not ready:
                        raise LaunchError(f"the judge for {address} does not start: exit code {process.returncode}")
                    report(f"the judge at {address} ended with {process.returncode}; it starts again")
                if process is None or process.poll() is not None:
                    processes[address] = subprocess.Popen(command.words)
            if not ready and all(map(_answers, commands)):
                ready = True
                print(f"sandbox.backend=http 'sandbox.addresses=[{','.join(commands)}]'", flush=True)
            time.sleep(0.5)
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
