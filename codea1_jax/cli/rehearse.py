from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codea1_jax.cli._arguments import add_preset
from codea1_jax.cli._runtime import DONE, FAILED

if TYPE_CHECKING:
    from codea1_jax.config import Config
    from codea1_jax.doctor.rehearsal.rehearsal import Stage


def add(parser: argparse.ArgumentParser) -> None:
    add_preset(parser)
    parser.add_argument("--topology", help="v5e:4x4, v5p:2x2x4, h100:8, ...; by default what the preset is made for")
    parser.add_argument(
        "--directory", type=Path, help="where everything is written; default: rehearsals/ and the preset's name"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    os.environ["JAX_PLATFORMS"] = "cpu"  # leaves the accelerators of this machine alone
    from codea1_jax.common.chips import find_hardware
    from codea1_jax.common.files import write_atomically
    from codea1_jax.config import Config, load
    from codea1_jax.doctor.rehearsal.rehearsal import NOT_REHEARSED, RESULT, Rehearsal, prepare

    def reload(overrides: Sequence[str]) -> Config:
        return load(Config, options.preset, [*options.overrides, *overrides])

    config = reload(())
    name = options.topology or config.hardware
    hardware = None if name is None else find_hardware(name)
    devices, hosts = (1, 1) if hardware is None else (hardware.devices, hardware.hosts)
    directory = options.directory or Path("rehearsals") / options.preset.replace("/", "-").removesuffix(".yaml")
    directory = directory.absolute()
    prepare(directory)
    rehearsal = Rehearsal(config, reload, devices, hosts, directory)
    print(f"rehearsing {options.preset} on {name or 'one device'}, in {directory}", file=sys.stderr, flush=True)
    stages: list[Stage] = []
    for stage in rehearsal.stages():
        stages.append(stage)
        line = f"{'ok  ' if stage.works else 'FAIL'} {stage.name} ({stage.seconds:.0f} s): {stage.detail}"
        print(line, file=sys.stderr if options.json else sys.stdout, flush=True)
    document = {"preset": options.preset, "hardware": name, **rehearsal.document(stages)}
    write_atomically(directory / RESULT, json.dumps(document) + "\n")
    if options.json:
        print(json.dumps(document))
    else:
        print("not rehearsed:", *NOT_REHEARSED, sep="\n  ")
        print(f"{'FAILED' if document['failed'] else 'passed'} in {sum(stage.seconds for stage in stages):.0f} s")
    return FAILED if document["failed"] else DONE
