"""What compilers have made of programs, kept in `.cache/plan`: what a plan has compiled, the next one need not.

JAX's own cache cannot read back a program for a device that is not there.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from codea1_jax.common.files import write_atomically

FOLDER = Path(".cache/plan")
COMPILERS = ("jaxlib", "libtpu", "jax-cuda12-pjrt", "jax-cuda13-pjrt")
FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")


@dataclass(frozen=True)
class Made:
    """A compiled program. seconds: that compiling took. memory: bytes on a device, by what they are for."""

    seconds: float
    memory: Mapping[str, int]
    program: str


def made_once(source: str, devices: str, make: Callable[[], Made]) -> Made:
    """What `make` makes of a lowered program, or what it made of the same one for the same devices before.

    Other versions of the compilers, or other flags, make another one.
    """
    flags = (os.environ.get(name, "") for name in FLAGS)
    name = hashlib.sha256("\n".join((source, devices, compilers(), *flags)).encode()).hexdigest()
    file = FOLDER / f"{name}.json.gz"
    with suppress(OSError, EOFError, zlib.error, ValueError):  # not there, or damaged
        return Made(**json.loads(gzip.decompress(file.read_bytes())))
    made = make()
    with suppress(OSError):  # where nothing can be written it is compiled again
        write_atomically(file, gzip.compress(json.dumps(asdict(made)).encode()))
    return made


def compilers() -> str:
    """The installed compilers and their versions."""
    installed = []
    for package in COMPILERS:
        with suppress(PackageNotFoundError):
            installed.append(f"{package} {version(package)}")
    return ", ".join(installed)
