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

    commands: Callable[[], Sequence[Command]]
    perform: Callable[[], None] | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Performs one step and returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    top = argparse.ArgumentParser(
        prog="python -m launch", allow_abbrev=False, description="Launch training on TPUs and GPUs."
    )
    top.add_argument("platform", choices=_PLATFORMS, help="each has its own --help")
    make_parser, make_steps = _PLATFORMS[top.parse_args(arguments[:1]).platform]
    options = make_parser().parse_intermixed_args(arguments[1:])
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what is billed is deleted
    try:
        step = make_steps(options)[options.step]
        if options.dry_run:
            print(*step.commands(), sep="\n")
        elif step.perform is None:
            run(*step.commands())
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


def _tpu_parser() -> argparse.ArgumentParser:
    steps = ("check", "create", "install", "start", "logs", "status", "stop", "copy", "delete", "up")
    parser = _parser("tpu", "Cloud TPU VMs: one host, a pod, several slices", steps)
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
    instead = parser.add_mutually_exclusive_group()
    _add_evaluation(instead)
    _add_proof(instead)
    _add_supervision(parser)
    return parser


def _tpu_steps(options: argparse.Namespace) -> Mapping[str, Step]:
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

    def everything() -> Sequence[Command]:
        look = tpu.describe(pod)
        before = (look, *_commands_of(tpu.check(pod, sandbox)), *job.upload(), tpu.create(pod), look)
        training = (*tpu.install(pod, sandbox), tpu.start(pod), tpu.logs(pod), tpu.status(pod))
        return (*before, *training, look, tpu.stop(pod), *tpu.copy(job), tpu.delete(pod), look)

    return {
        "check": _check(lambda: tpu.check(pod, sandbox), options),
        "create": Step(lambda: (tpu.create(pod), tpu.describe(pod)), lambda: supervise.acquire(pod, patience)),
        "install": Step(lambda: tpu.install(pod, sandbox)),
        "start": Step(lambda: (*job.upload(), tpu.start(pod))),
        "logs": Step(lambda: (tpu.logs(pod),)),
        "status": Step(lambda: (tpu.describe(pod), tpu.status(pod))),
        "stop": Step(lambda: (tpu.stop(pod),)),
        "copy": Step(lambda: tpu.copy(job)),
        "delete": Step(lambda: (tpu.delete(pod), tpu.describe(pod)), lambda: supervise.release(pod, patience)),
        "up": Step(everything, lambda: supervise.up(pod, sandbox, patience, options.skip, options.keep)),
    }


# --- GKE ----------------------------------------------------------------------------------------------


def _gke_parser() -> argparse.ArgumentParser:
    steps = ("check", "manifest", "start", "logs", "status", "copy", "delete", "up")
    parser = _parser("gke", "TPUs of the current kubectl cluster, as a JobSet", steps)
    parser.add_argument("--image", help="built with launch/Dockerfile.tpu")
    parser.add_argument("--service-account", default="default", help="Kubernetes account with access to the bucket")
    _add_slices(parser)
    parser.add_argument("--spot", action="store_true", help="use spot nodes")
    _add_proof(parser)
    _add_supervision(parser)
    return parser


def _gke_steps(options: argparse.Namespace) -> Mapping[str, Step]:
    job, config = _job(options, needs_bucket=("check", "manifest", "start", "copy", "up"))
    workload = gke.Workload(
        job,
        slice=_slice(options, config),
        image=options.image,
        service_account=options.service_account,
        spot=options.spot,
        restarts=_retries(options),
    )
    sandbox = config.sandbox if config else SandboxConfig()
    patience = Patience(options.poll, _retries(options))

    def everything() -> Sequence[Command]:
        look = gke.describe(workload)
        before = (look, *_commands_of(gke.check(workload, sandbox)), *job.upload(), gke.submit(workload))
        return (*before, look, gke.logs(workload), look, gke.delete(workload), *gke.copy(job))

    return {
        "check": _check(lambda: gke.check(workload, sandbox), options),
        "manifest": Step(lambda: (gke.submit(workload),), lambda: print(gke.manifest(workload), end="")),
        "start": Step(lambda: (*job.upload(), gke.submit(workload))),
        "logs": Step(lambda: (gke.logs(workload),)),
        "status": Step(lambda: (gke.describe(workload),), lambda: print(gke.read_state(ask(gke.describe(workload))))),
        "copy": Step(lambda: gke.copy(job)),
        "delete": Step(lambda: (gke.delete(workload),)),
        "up": Step(everything, lambda: gke.up(workload, sandbox, patience, options.skip, options.keep)),
    }


# --- GPUs ---------------------------------------------------------------------------------------------


def _gpu_parser() -> argparse.ArgumentParser:
    parser = _parser("gpu", "all GPUs of this machine", ("check", "start", "up"))
    _add_gpus(parser)
    _add_evaluation(parser)
    parser.add_argument("--selftest", action="store_true", help="also run `codea1 selftest`, minutes, as a check")
    return parser


def _gpu_steps(options: argparse.Namespace) -> Mapping[str, Step]:
    job, config = _job(options)
    machine = gpu.Machine(job, *_gpus(options, config))
    checking = (*gpu.check_here(machine), *([checks.selftest(job)] if options.selftest else []))

    def up() -> None:
        checks.perform(checking, options.skip)
        run(gpu.train(machine))

    return {
        "check": _check(lambda: checking, options),
        "start": Step(lambda: (gpu.train(machine),)),
        "up": Step(lambda: (*_commands_of(checking), gpu.train(machine)), up),
    }


def _slurm_parser() -> argparse.ArgumentParser:
    parser = _parser("slurm", "GPUs of several nodes", ("check", "start", "logs", "status", "stop", "up"))
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="number of machines")
    parser.add_argument("--sbatch-flag", action="append", default=[], metavar="FLAG", help="passed to sbatch")
    parser.add_argument("--poll", type=float, default=30, metavar="SECONDS", help="time between queue checks")
    _add_gpus(parser)
    instead = parser.add_mutually_exclusive_group()
    _add_evaluation(instead)
    _add_proof(instead)
    return parser


def _slurm_steps(options: argparse.Namespace) -> Mapping[str, Step]:
    job, config = _job(options)
    kind, count = _gpus(options, config)
    job = replace(job, slices=gpu.replicas(config, count, options.nodes))
    machine = gpu.Machine(job, kind, count, options.nodes, tuple(options.sbatch_flag))
    logs = gpu.logs(machine, options.poll)

    def up() -> None:
        gpu.queue(machine, gpu.check_slurm(machine), options.skip)
        run(logs)

    def everything() -> Sequence[Command]:
        return (gpu.status(machine), *_commands_of(gpu.check_slurm(machine)), *gpu.submit_once(machine), logs)

    return {
        "check": _check(lambda: gpu.check_slurm(machine), options),
        "start": Step(lambda: (gpu.status(machine), *gpu.submit_once(machine)), lambda: gpu.queue(machine, (), ())),
        "logs": Step(lambda: (logs,)),
        "status": Step(lambda: (gpu.status(machine),)),
        "stop": Step(lambda: (gpu.cancel(machine),)),
        "up": Step(everything, up),
    }


_PLATFORMS = {
    "tpu": (_tpu_parser, _tpu_steps),
    "gke": (_gke_parser, _gke_steps),
    "slurm": (_slurm_parser, _slurm_steps),
    "gpu": (_gpu_parser, _gpu_steps),
}


# --- shared by all platforms ----------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def convert_arg_line_to_args(self, arg_line: str) -> list[str]:
        """The arguments in a line of an @file."""
        return shlex.split(arg_line, comments=True)


def _parser(platform: str, description: str, steps: Sequence[str]) -> argparse.ArgumentParser:
    parser = _Parser(prog=f"python -m launch {platform}", description=description, fromfile_prefix_chars="@")
    parser.add_argument("step", choices=steps, help="`up` performs all of them")
    parser.add_argument("name", help="name of the run")
    parser.add_argument("preset", nargs="?", help="as for `codea1 train`")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as for `codea1 train`")
    parser.add_argument("--bucket", metavar="gs://BUCKET/FOLDER", help="where the run is stored")
    parser.add_argument("--skip", action="append", default=[], metavar="CHECK", help="skip a check")
    parser.add_argument("--price-per-hour", type=float, help="of the hardware; `check` then states the expected cost")
    parser.add_argument("--dry-run", action="store_true", help="print the commands of the step without running them")
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


def _add_evaluation(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--eval", default="", metavar="ARGUMENTS", help="run `codea1 eval ARGUMENTS` on one host instead"
    )


def _add_proof(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--selftest", dest="proves", action="store_true", help="run `codea1 selftest` on all hosts instead, minutes"
    )


def _job(options: argparse.Namespace, needs_bucket: Sequence[str] = ()) -> tuple[Job, Config | None]:
    if not _NAME.fullmatch(options.name):
        raise Refused(f"{options.name}: a name has up to 40 lower-case letters, digits and hyphens, a letter first")
    if options.preset is None and options.step in ("check", "manifest", "start", "up"):
        raise Refused(f"{options.step}: give a preset, as in `python -m launch ... {options.step} NAME micro/a1`")
    if options.bucket is None and options.step in needs_bucket:
        raise Refused("--bucket: give the place for checkpoints and results, as in gs://bucket/folder")
    if options.bucket is not None and not re.fullmatch(r"gs://[^/]+/.*[^/]", options.bucket):
        raise Refused(f"--bucket: {options.bucket} is not a gs://bucket/folder")
    slices = getattr(options, "slices", 1)
    config = load(Config, options.preset, options.overrides) if options.preset else None
    evaluation = tuple(shlex.split(getattr(options, "eval", "")))
    proves = getattr(options, "proves", False)
    sources = sources_of(config.data) if config and not (evaluation or proves) else ()
    job = Job(
        options.name,
        options.preset or "",
        tuple(options.overrides),
        bucket=options.bucket,
        slices=slices,
        sources=sources,
        evaluation=evaluation,
        proves=proves,
        price_per_hour=options.price_per_hour,
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


def _check(checking: Callable[[], Sequence[Check]], options: argparse.Namespace) -> Step:
    return Step(lambda: _commands_of(checking()), lambda: checks.perform(checking(), options.skip))


def _commands_of(checking: Sequence[Check]) -> tuple[Command, ...]:
    return tuple(command for check in checking for command in check.commands)
