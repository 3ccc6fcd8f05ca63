"""The command line of `python -m launch`, described in docs/launch.md.

Exit codes are those of `codea1`: 0 done; 1 failed; 2 refused before anything was started; 130 interrupted.
"""

import argparse
import os
import re
import signal
import sys
from collections.abc import Sequence

from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, load
from codea1_jax.training.sources import sources_of
from launch.job import Job
from launch.shell import LaunchError, Refused, Step, run
from launch.tpu import STEPS, CloudTPU

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")  # what Google Cloud takes


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_intermixed_args(arguments)
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what is billed is deleted
    try:
        step = _step(options)
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


def _parser() -> argparse.ArgumentParser:
    description = "Train on Cloud TPU VMs: one host, a pod, several slices."
    parser = argparse.ArgumentParser("python -m launch", description=description)
    parser.add_argument("platform", choices=["tpu"])
    parser.add_argument("step", choices=STEPS, help="`up` performs all of them")
    parser.add_argument("name", help="name of the run")
    parser.add_argument("preset", nargs="?", help="as for `codea1 train`")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as for `codea1 train`")
    parser.add_argument("--dry-run", action="store_true", help="print the commands of the step without running them")
    proof = "run `codea1 selftest` on all hosts instead, minutes"
    parser.add_argument("--selftest", dest="proves", action="store_true", help=proof)
    parser.add_argument("--spot", action="store_true", help="slices that may be preempted")
    for option, metavar, meaning in (
        ("--bucket", "gs://BUCKET/FOLDER", "where the run is stored"),
        ("--project", "ID", "default: $CLOUDSDK_CORE_PROJECT"),
        ("--zone", "ZONE", "default: $CLOUDSDK_COMPUTE_ZONE"),
        ("--tpu", "KIND:SHAPE", "the slice, as in v5e:4x4; default: the preset's hardware"),
    ):
        parser.add_argument(option, metavar=metavar, help=meaning)
    for option, kind, default, meaning in (
        ("--slices", int, 1, "number of slices; sets mesh.replica"),
        ("--retries", int, 3, "how often to restart failed training"),
        ("--poll", float, 30, "seconds between status checks"),
    ):
        parser.add_argument(option, type=kind, default=default, metavar="N", help=meaning)
    for option, metavar, meaning in (
        ("--skip", "CHECK", "skip a check"),
        ("--send", "PATH", "also copy this to every worker"),
        ("--create-flag", "FLAG", "passed to gcloud create"),
        ("--ssh-flag", "FLAG", "passed to gcloud ssh and scp"),
    ):
        parser.add_argument(option, action="append", default=[], metavar=metavar, help=meaning)
    parser.add_argument("--keep", action="store_true", help="`up` keeps the slices")
    environment = {"project": "CLOUDSDK_CORE_PROJECT", "zone": "CLOUDSDK_COMPUTE_ZONE"}
    parser.set_defaults(**{option: os.environ.get(variable) for option, variable in environment.items()})
    return parser


def _step(options: argparse.Namespace) -> Step:
    if not _NAME.fullmatch(options.name):
        raise Refused(f"{options.name}: a name has up to 40 lower-case letters, digits and hyphens, a letter first")
    if options.preset is None and options.step in ("check", "start", "up"):
        raise Refused(f"{options.step}: give a preset, as in `python -m launch tpu {options.step} NAME micro/a1`")
    if options.bucket is None and options.step in ("check", "start", "copy", "up"):
        raise Refused("--bucket: give the place for checkpoints and results, as in gs://bucket/folder")
    if options.bucket is not None and not re.fullmatch(r"gs://[^/]+/.*[^/]", options.bucket):
        raise Refused(f"--bucket: {options.bucket} is not a gs://bucket/folder")
    config = load(Config, options.preset, options.overrides) if options.preset else None
    job = Job(
        options.name,
        options.preset or "",
        tuple(options.overrides),
        bucket=options.bucket or "",
        slices=options.slices,
        sources=sources_of(config.data) if config and not options.proves else (),
        proves=options.proves,
    )
    job.check_overrides()
    return getattr(CloudTPU(options, job, config), options.step)()
