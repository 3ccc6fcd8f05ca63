"""The command line of `python -m launch`, described in launch/README.md.

Exit codes are those of `codea1`: 0 done; 1 failed; 2 refused before anything was started; 130 interrupted.
"""

from __future__ import annotations

import argparse
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence

from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, load
from codea1_jax.training.sources import sources_of
from launch.job import Job
from launch.platforms import Platform, Step
from launch.shell import LaunchError, Refused, run
from launch.slurm import Slurm
from launch.tpu import CloudTPU

PLATFORMS: Mapping[str, type[Platform]] = {"tpu": CloudTPU, "slurm": Slurm}

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")  # what Google Cloud and SLURM both take


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    top = argparse.ArgumentParser(prog="python -m launch", allow_abbrev=False, description="Launch training.")
    top.add_argument("platform", choices=PLATFORMS, help="each has its own --help")
    name = top.parse_args(arguments[:1]).platform
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what is billed is deleted
    try:
        options, step = _step(name, arguments[1:])
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


def _parser(name: str) -> argparse.ArgumentParser:
    platform = PLATFORMS[name]
    parser = argparse.ArgumentParser(f"python -m launch {name}", description=platform.description)
    parser.add_argument("step", choices=platform.steps, help="`up` performs all of them")
    parser.add_argument("name", help="name of the run")
    parser.add_argument("preset", nargs="?", help="as for `codea1 train`")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as for `codea1 train`")
    parser.add_argument("--bucket", metavar="gs://BUCKET/FOLDER", help="where the run is stored")
    parser.add_argument("--skip", action="append", default=[], metavar="CHECK", help="skip a check")
    parser.add_argument("--dry-run", action="store_true", help="print the commands of the step without running them")
    parser.set_defaults(slices=1)
    platform.add_options(parser)
    return parser


def _step(name: str, arguments: Sequence[str]) -> tuple[argparse.Namespace, Step]:
    """The options, and the step that they ask for. Raises Refused or UserError if they contradict or lack something."""
    platform, options = PLATFORMS[name], _parser(name).parse_intermixed_args(arguments)
    if not _NAME.fullmatch(options.name):
        raise Refused(f"{options.name}: a name has up to 40 lower-case letters, digits and hyphens, a letter first")
    if options.preset is None and options.step in ("check", "start", "up"):
        raise Refused(f"{options.step}: give a preset, as in `python -m launch ... {options.step} NAME micro/a1`")
    if options.bucket is None and options.step in platform.needs_bucket:
        raise Refused("--bucket: give the place for checkpoints and results, as in gs://bucket/folder")
    if options.bucket is not None and not re.fullmatch(r"gs://[^/]+/.*[^/]", options.bucket):
        raise Refused(f"--bucket: {options.bucket} is not a gs://bucket/folder")
    config = load(Config, options.preset, options.overrides) if options.preset else None
    job = Job(
        options.name,
        options.preset or "",
        tuple(options.overrides),
        bucket=options.bucket,
        slices=options.slices,
        sources=sources_of(config.data) if config and not (options.eval or options.proves) else (),
        evaluation=tuple(shlex.split(options.eval)),
        proves=options.proves,
    )
    job.check_overrides()
    return options, getattr(platform(options, job, config), options.step)()
