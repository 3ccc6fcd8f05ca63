from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from codea1_jax.cli._runtime import BAD_INPUT, DONE, FAILED

if TYPE_CHECKING:
    from sandbox.host.doctor import Diagnosis

_QUESTIONS = {"data", "schedule"}  # findings that are bad input of the user's


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("preset", nargs="?", help="a preset's name or a YAML file; also checks what its run needs")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="key=value", help="for example checkpoint.directory=gs://..."
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    diagnosis = _diagnose(options.preset, options.overrides)
    print(diagnosis)
    failures = dict.fromkeys(finding.name for finding in diagnosis.failures)
    print(f"\nmissing: {', '.join(failures)}" if failures else "\nnothing is missing")
    if _QUESTIONS & failures.keys():
        return BAD_INPUT
    return FAILED if failures else DONE


def _diagnose(preset: str | None, overrides: list[str]) -> Diagnosis:
    from pathlib import Path

    from codea1_jax.doctor.host import count_hosts, find_devices, find_disk, find_memory, find_packages
    from sandbox.host.doctor import Diagnosis, report

    packages = find_packages()
    if packages.works is False:  # nothing below could be imported
        return Diagnosis((packages, *report().findings))
    from codea1_jax.config import Config, HostsConfig, load
    from codea1_jax.doctor.run import find_needs

    config = None if preset is None else load(Config, preset, overrides)
    found, devices = find_devices(count_hosts(HostsConfig() if config is None else config.hosts))
    host = (packages, found, find_memory())
    if config is None:
        judge = [each for each in report().findings if each.name in ("system", "jail") or each.works is False]
        return Diagnosis((*host, *judge, find_disk(Path(), "this directory")))
    return Diagnosis((*host, *find_needs(config, devices)))
