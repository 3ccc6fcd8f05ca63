"""A TPU VM that is a directory: what worker.sh finds there to install with, and what it gets installed."""

import os
from pathlib import Path

from fake_cloud import Cloud

# python3 -m pip install ... --target DIR uv: leaves a uv that makes environments whose codea1 is the stand-in.
_PYTHON3 = """#!/bin/bash
while [[ $1 != --target ]]; do shift; done
mkdir -p "$2/bin"
cp "$IMAGE/uv" "$2/bin/uv"
"""
_UV = """#!/bin/bash
if [[ $1 == pip ]]; then
    echo "${@: -1}" >>"$HOME/installations"
    test ! -e "$HOME/broken"
else
    mkdir -p "${@: -1}/bin"
    cp "$IMAGE/codea1" "${@: -1}/bin/codea1"
fi
"""
_SUDO = """#!/bin/bash
exec "$@"
"""


def add_worker(cloud: Cloud, training: str, **environment: str) -> Path:
    """Another worker of the cloud, whose `codea1` is the shell script `training`. Returns its home."""
    home, image = (cloud.directory / f"{what}{len(cloud.workers)}" for what in ("worker", "image"))
    home.mkdir()
    image.mkdir()
    for name, script in (("python3", _PYTHON3), ("uv", _UV), ("sudo", _SUDO), ("codea1", f"#!/bin/bash\n{training}")):
        (image / name).write_text(script)
        (image / name).chmod(0o755)
    path = f"{image}:{cloud.bin}:{os.environ['PATH']}"
    cloud.workers.append(home)
    cloud.environments.append({"PATH": path, "IMAGE": str(image), **environment})
    return home
