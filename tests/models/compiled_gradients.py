"""Run by test_compiled_gradients.py in a process of its own, as libtpu wants: compiles programs of presets for TPUs and
prints which floats they write by number, as one JSON line {program: [[type, [sizes], whether numbers differ], ...]}.

Arguments: PRESET=PHASE for the preset's own hardware, or PRESET=PHASE@KIND for one device of that kind.
"""

import json
import os
import re
import sys

import jax

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, load
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.compiler import ENVIRONMENT
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.programs import make_programs
from codea1_jax.plan.worker import devices_of

SCATTER = re.compile(r"= (b?f\d+)\[([\d,]*)\]\S* scatter\((.*)")
# The smallest topology that libtpu describes, and the name of one chip of it.
SMALLEST = {"v5e": ("v5e:2x2", "v5e:1x1"), "v5p": ("v5p:2x2x1", "v5p:1x1x1"), "v6e": ("v6e:2x2", "v6e:1x1")}


def lowered(name):
    preset, phase, kind = re.fullmatch(r"([^=]+)=([^@]+)@?(.*)", name).groups()
    topology, one = SMALLEST[kind] if kind else (load(Config, preset).hardware,) * 2
    devices = devices_of(find_hardware(topology))
    config, hardware = load(Config, preset), find_hardware(one)
    mesh = make_mesh(config.mesh, devices[: hardware.devices])
    programs = make_programs(make_planned_run(config, hardware), mesh)
    return next(program for program in programs if str(program.name) == phase).lower()


def scatters(text):
    """Of a compiled program."""
    found = {
        (dtype, tuple(int(size) for size in sizes.split(",") if size), "unique_indices=true" in rest)
        for dtype, sizes, rest in SCATTER.findall(text)
    }
    return sorted(found)


def main():
    os.environ.update(ENVIRONMENT)
    jax.config.update("jax_enable_compilation_cache", False)
    jax.config.update("jax_disable_most_optimizations", False)  # unlike tests
    print(json.dumps({name: scatters(lowered(name).compile().as_text()) for name in sys.argv[1:]}))


if __name__ == "__main__":
    main()
