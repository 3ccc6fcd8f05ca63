"""The command line of `python -m launch`, described in launch/README.md.

Exit codes are those of `codea1`: 0 done; 1 failed; 2 refused before anything was started; 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, SandboxConfig, load
from codea1_jax.training.sources import sources_of
from launch import checks, gke, gpu, supervise, tpu
from launch.checks import Check
from launch.hardware import find_slice
from launch.job import Job
from launch.shell import Command, LaunchError, Refused, ask, run
from launch.supervise import Patience

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")  # what Google Cloud, Kubernetes and SLURM all take


@dataclass(frozen=True)
class Step:
    """The commands of a step if all goes well, and the function that performs it; without one, the commands are run."""

    commands: Sequence[Command]
    perform: Callable[[], None] | None = None


@dataclass(frozen=True)
class Platform:
    """Where runs are launched: its options, and what each of its steps does with the options that are given."""

    description: str
    steps: tuple[str, ...]
    add_options: Callable[[argparse.ArgumentParser], None]
    step: Callable[[argparse.Namespace], Step]


def main(arguments: Sequence[str] | None = None) -> int:
    """Performs one step and returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    top = argparse.ArgumentParser(
        prog="python -m launch", allow_abbrev=False, description="Launch training on TPUs and GPUs."
    )
    top.add_argument("platform", choices=_PLATFORMS, help="each has its own --help")
    name = top.parse_args(arguments[:1]).platform
    options = parser_of(name).parse_intermixed_args(arguments[1:])
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what is billed is deleted
    try:
        step = _PLATFORMS[name].step(options)
        if options.dry_run:
            print(*step.commands, sep="\n")
        elif step.perform is None:
            run(*step.commands)
        else:
            step.perform()
    except (Refused, UserError) as error:
        print(f"launch: {error}", file=sys.stderr)
        return 2
    except LaunchError as error:
        print(f"launch: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("launch: interrupted", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, previous)
    return 0


# --- Cloud TPU VMs ------------------------------------------------------------------------------------


def _tpu_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", default=os.environ.get("CLOUDSDK_CORE_PROJECT"), help="$CLOUDSDK_CORE_PROJECT")
    parser.add_argument("--zone", default=os.environ.get("CLOUDSDK_COMPUTE_ZONE"), help="$CLOUDSDK_COMPUTE_ZONE")
    _add_slices(parser)
    capacity = parser.add_mutually_exclusive_group()
    for kind in ("spot", "reserved"):
        capacity.add_argument(f"--{kind}", dest="capacity", action="store_const", const=kind, default="on-demand")
    parser.add_argument("--wait", metavar="DURATION", help="give up the request after this time, as in 6h")
    parser.add_argument("--send", action="append", default=[], metavar="PATH", help="also copy this to every worker")
    parser.add_argument("--create-flag", action="append", default=[], metavar="FLAG", help="passed to gcloud create")
    parser.add_argument("--ssh-flag", action="append", default=[], metavar="FLAG", help="passed to gcloud ssh and scp")
    _add_instead(parser, "--eval", "--selftest")
    _add_supervision(parser)


def _tpu_step(options: argparse.Namespace) -> Step:
    if not (options.project and options.zone):
        raise Refused("give --project and --zone, or set CLOUDSDK_CORE_PROJECT and CLOUDSDK_COMPUTE_ZONE")
    job, config = _job(options, needs_bucket=("check", "start", "copy", "up"))
    pod = tpu.Pod(
        job,
        options.project,
        options.zone,
        slice=_slice(options, config),
        capacity=options.capacity,
        wait=options.wait,
        send=tuple(options.send),
        create_flags=tuple(options.create_flag),
        ssh_flags=tuple(options.ssh_flag),
    )
    sandbox = config.sandbox if config else SandboxConfig()
    patience = Patience(options.poll, _retries(options))
    look = tpu.describe(pod)

    def up() -> Step:
        before = (look, *_commands_of(tpu.check(pod)), *job.upload(), tpu.create(pod), look)
        training = (*tpu.install(pod, sandbox), tpu.start(pod), tpu.logs(pod), tpu.status(pod))
        everything = (*before, *training, look, tpu.stop(pod), *job.results(), tpu.delete(pod), look)
        return Step(everything, lambda: supervise.up(pod, sandbox, patience, options.skip, options.keep))

    steps: Mapping[str, Callable[[], Step]] = {
        "check": lambda: _check(tpu.check(pod), options),
        "create": lambda: Step((tpu.create(pod), look), lambda: supervise.acquire(pod, patience)),
        "install": lambda: Step(tpu.install(pod, sandbox)),
        "start": lambda: Step((*job.upload(), tpu.start(pod))),
        "logs": lambda: Step((tpu.logs(pod),)),
        "status": lambda: Step((look, tpu.status(pod))),
        "stop": lambda: Step((tpu.stop(pod),)),
        "copy": lambda: Step(job.results()),
        "delete": lambda: Step((tpu.delete(pod), look), lambda: supervise.release(pod, patience)),
        "up": up,
    }
    return steps[options.step]()


# --- GKE ----------------------------------------------------------------------------------------------


def _gke_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--image", help="built with launch/Dockerfile, for tpu")
    parser.add_argument("--service-account", default="default", help="Kubernetes account with access to the bucket")
    _add_slices(parser)
    parser.add_argument("--spot", action="store_true", help="use spot nodes")
    _add_instead(parser, "--selftest")
    _add_supervision(parser)


def _gke_step(options: argparse.Namespace) -> Step:
    job, config = _job(options, needs_bucket=("check", "manifest", "start", "copy", "up"))
    workload = gke.Workload(
        job,
        slice=_slice(options, config),
        image=options.image,
        service_account=options.service_account,
        spot=options.spot,
        restarts=_retries(options),
    )
    patience = Patience(options.poll, _retries(options))
    look = gke.describe(workload)

    def up() -> Step:
        before = (look, *_commands_of(gke.check(workload)), *job.upload(), gke.submit(workload))
        everything = (*before, look, gke.logs(workload), look, gke.delete(workload), *job.results())
        return Step(everything, lambda: gke.up(workload, patience, options.skip, options.keep))

    steps: Mapping[str, Callable[[], Step]] = {
        "check": lambda: _check(gke.check(workload), options),
        "manifest": lambda: Step((gke.submit(workload),), lambda: print(gke.manifest(workload), end="")),
        "start": lambda: Step((*job.upload(), gke.submit(workload))),
        "logs": lambda: Step((gke.logs(workload),)),
        "status": lambda: Step((look,), lambda: print(gke.read_state(ask(look)))),
        "copy": lambda: Step(job.results()),
        "delete": lambda: Step((gke.delete(workload),)),
        "up": up,
    }
    return steps[options.step]()


# --- GPUs ---------------------------------------------------------------------------------------------


def _gpu_options(parser: argparse.ArgumentParser) -> None:
    _add_gpus(parser)
    _add_instead(parser, "--eval")
    parser.add_argument("--selftest", action="store_true", help="also run `codea1 selftest`, minutes, as a check")


def _gpu_step(options: argparse.Namespace) -> Step:
    job, config = _job(options)
    machine = gpu.Machine(job, *_gpus(options, config))
    checking = gpu.check_here(machine, options.selftest)

    def up() -> None:
        checks.perform(checking, options.skip)
        run(gpu.train(machine))

    return {
        "check": _check(checking, options),
        "start": Step((gpu.train(machine),)),
        "up": Step((*_commands_of(checking), gpu.train(machine)), up),
    }[options.step]


def _slurm_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="number of machines")
    parser.add_argument("--sbatch-flag", action="append", default=[], metavar="FLAG", help="passed to sbatch")
    parser.add_argument("--poll", type=float, default=30, metavar="SECONDS", help="time between queue checks")
    _add_gpus(parser)
    _add_instead(parser, "--eval", "--selftest")


def _slurm_step(options: argparse.Namespace) -> Step:
    job, config = _job(options)
    kind, count = _gpus(options, config)
    job = replace(job, slices=gpu.replicas(config, count, options.nodes))
    machine = gpu.Machine(job, kind, count, options.nodes, tuple(options.sbatch_flag))
    look, logs = gpu.status(machine), gpu.logs(machine, options.poll)
    checking = gpu.check_slurm(machine)

    def up() -> None:
        gpu.queue(machine, checking, options.skip)
        run(logs)

    return {
        "check": _check(checking, options),
        "start": Step((look, *gpu.submit_once(machine)), lambda: gpu.queue(machine, (), ())),
        "logs": Step((logs,)),
        "status": Step((look,)),
        "stop": Step((gpu.cancel(machine),)),
        "up": Step((look, *_commands_of(checking), *gpu.submit_once(machine), logs), up),
    }[options.step]


_PLATFORMS = {
    "tpu": Platform(
        "Cloud TPU VMs: one host, a pod, several slices",
        ("check", "create", "install", "start", "logs", "status", "stop", "copy", "delete", "up"),
        _tpu_options,
        _tpu_step,
    ),
    "gke": Platform(
        "TPUs of the current kubectl cluster, as a JobSet",
        ("check", "manifest", "start", "logs", "status", "copy", "delete", "up"),
        _gke_options,
        _gke_step,
    ),
    "slurm": Platform(
        "GPUs of several nodes", ("check", "start", "logs", "status", "stop", "up"), _slurm_options, _slurm_step
    ),
    "gpu": Platform("all GPUs of this machine", ("check", "start", "up"), _gpu_options, _gpu_step),
}


# --- shared by all platforms ----------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def convert_arg_line_to_args(self, arg_line: str) -> list[str]:
        """The arguments in a line of an @file."""
        return shlex.split(arg_line, comments=True)


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of a platform's arguments."""
    platform = _PLATFORMS[name]
    parser = _Parser(prog=f"python -m launch {name}", description=platform.description, fromfile_prefix_chars="@")
    parser.add_argument("step", choices=platform.steps, help="`up` performs all of them")
    parser.add_argument("name", help="name of the run")
    parser.add_argument("preset", nargs="?", help="as for `codea1 train`")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as for `codea1 train`")
    parser.add_argument("--bucket", metavar="gs://BUCKET/FOLDER", help="where the run is stored")
    parser.add_argument("--skip", action="append", default=[], metavar="CHECK", help="skip a check")
    parser.add_argument("--dry-run", action="store_true", help="print the commands of the step without running them")
    parser.set_defaults(eval="", proves=False, slices=1)
    platform.add_options(parser)
    return parser


def _add_slices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tpu", metavar="KIND:SHAPE", help="the slice, as in v5e:4x4; default: the preset's hardware")
    parser.add_argument("--slices", type=int, default=1, metavar="N", help="number of slices; sets mesh.replica")


def _add_supervision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--retries", type=int, default=3, metavar="N", help="how often to restart failed training")
    parser.add_argument("--keep", action="store_true", help="`up` keeps the slices or the JobSet")
    parser.add_argument("--poll", type=float, default=30, metavar="SECONDS", help="time between status checks")


def _retries(options: argparse.Namespace) -> int:
    return 0 if options.proves else options.retries  # a machine that fails its tests would fail them again


def _add_gpus(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpus", metavar="KIND:COUNT", help="GPUs of one machine; default: the preset's hardware")


def _add_instead(parser: argparse.ArgumentParser, *options: str) -> None:
    """What may be run in place of training."""
    instead = parser.add_mutually_exclusive_group()
    if "--eval" in options:
        instead.add_argument("--eval", metavar="ARGUMENTS", help="run `codea1 eval ARGUMENTS` on one host instead")
    if "--selftest" in options:
        proof = "run `codea1 selftest` on all hosts instead, minutes"
        instead.add_argument("--selftest", dest="proves", action="store_true", help=proof)


def _job(options: argparse.Namespace, needs_bucket: Sequence[str] = ()) -> tuple[Job, Config | None]:
    if not _NAME.fullmatch(options.name):
        raise Refused(f"{options.name}: a name has up to 40 lower-case letters, digits and hyphens, a letter first")
    if options.preset is None and options.step in ("check", "manifest", "start", "up"):
        raise Refused(f"{options.step}: give a preset, as in `python -m launch ... {options.step} NAME micro/a1`")
    if options.bucket is None and options.step in needs_bucket:
        raise Refused("--bucket: give the place for checkpoints and results, as in gs://bucket/folder")
    if options.bucket is not None and not re.fullmatch(r"gs://[^/]+/.*[^/]", options.bucket):
        raise Refused(f"--bucket: {options.bucket} is not a gs://bucket/folder")
    config = load(Config, options.preset, options.overrides) if options.preset else None
    instead = options.eval or options.proves
    job = Job(
        options.name,
        options.preset or "",
        tuple(options.overrides),
        bucket=options.bucket,
        slices=options.slices,
        sources=sources_of(config.data) if config and not instead else (),
        evaluation=tuple(shlex.split(options.eval)),
        proves=options.proves,
    )
    job.check_overrides()
    return job, config


def _slice(options: argparse.Namespace, config: Config | None):
    name = options.tpu or (config.hardware if config else None)
    return find_slice(name) if name else None


def _gpus(options: argparse.Namespace, config: Config | None) -> tuple[str, int]:
    name = options.gpus or (config.hardware if config else None)
    if name is None:
        raise Refused("--gpus: give the GPUs of one machine, as in h100:8, or a preset that is made for them")
    return gpu.find_gpus(name)


def _check(checking: Sequence[Check], options: argparse.Namespace) -> Step:
    return Step(_commands_of(checking), lambda: checks.perform(checking, options.skip))


def _commands_of(checking: Sequence[Check]) -> tuple[Command, ...]:
    return tuple(check.command for check in checking)
