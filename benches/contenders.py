"""Contenders of a bench: each in its own environment and process, asked for one turn at a time.

A contender prints one JSON line when it is ready and one for every line that it reads, which may contain an order.
So contenders take turns, and a busy machine slows all of them. Standard library only: it runs in every environment.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

REPORTED: dict[str, float] = {}  # what a contender reports of its last turn, apart from seconds and memory


def environment(name: str, packages: Sequence[str]) -> Path:
    """The Python of `.venv-bench/NAME`, which is made if it is not there."""
    folder = ROOT / ".venv-bench" / name
    python = folder / "bin" / "python"
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        raise SystemExit("uv is missing: run `make venv` first")
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *packages], check=True)
    return python


class Contender:
    def __init__(self, python: Path | str, script: str, *arguments: object) -> None:
        self._name = Path(script).stem
        command = [str(python), str(Path(__file__).with_name(script)), *map(str, arguments)]
        path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
        variables = os.environ | {"PYTHONPATH": path, "TPU_SKIP_MDS_QUERY": "1", "HF_HUB_OFFLINE": "1"}
        self._process = subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read()

    def ask(self, what: str = "") -> dict[str, Any]:
        """One turn: what the contender reports of it. Shows how long it took."""
        assert self._process.stdin is not None
        print(what, file=self._process.stdin, flush=True)
        reported = self._read()
        print(f"{self._name} {what}: {reported['seconds']:.1f} s", file=sys.stderr)
        return reported

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args} ended with {self._process.wait()}: see above")
        return json.loads(line)


def turns() -> Iterator[str]:
    """A contender's turns, one for each line of standard input: what each asks for.

    When it asks for the next, the last is over: its seconds and the process's peak of memory are reported.
    """
    out, sys.stdout = sys.stdout, sys.stderr  # libraries chat
    print("{}", file=out, flush=True)
    for line in sys.stdin:
        started = time.perf_counter()
        yield line.strip()
        peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        reported = {"seconds": time.perf_counter() - started, "peak_gb": peak_gb}
        print(json.dumps(reported | REPORTED), file=out, flush=True)
