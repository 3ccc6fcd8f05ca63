"""Record how cosmic-ray itself judges every mutant of the functions in tests/fixtures/cosmic_ray_verdicts.json.

A function's tests run as `pytest test.py`, 10 seconds a mutant, as in UnLeakedTestBench. In an environment of its own:

    uv venv /tmp/cosmic-ray && VIRTUAL_ENV=/tmp/cosmic-ray uv pip install cosmic-ray pytest numpy pandas
    python scripts/record_cosmic_ray.py /tmp/cosmic-ray/bin

The file's functions and tests stay as they are; `verdicts` is written anew: for each operator, the outcome of each of
its mutants, in order: k(illed), t(imed out), s(urvived), or i(ncompetent: cosmic-ray cannot make it, and counts it as
killed, as it does one that runs out of time).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from codea1_jax.evals.scores.pytest_jobs import HEADER, IMPORT_ALL

FIXTURE = Path(__file__).parents[1] / "tests/fixtures/cosmic_ray_verdicts.json"
CONFIG = """
[cosmic-ray]
module-path = "mod.py"
timeout = 10
excluded-modules = []
test-command = "pytest test.py"

[cosmic-ray.distributor]
name = "local"
"""


def main() -> int:
    """Judges all functions, one a core, and rewrites the file."""
    tools = Path(sys.argv[1])
    functions = json.loads(FIXTURE.read_text())
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        verdicts = list(threads.map(lambda function: judge(function, tools), functions))
    written = [function | {"verdicts": found} for function, found in zip(functions, verdicts, strict=True)]
    FIXTURE.write_text(json.dumps(written, indent=1) + "\n")
    return 0


def judge(function: dict[str, Any], tools: Path) -> dict[str, str]:
    """Every operator's outcomes on one function. Raises CalledProcessError where the tests fail on the function."""
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    tests = "\n\n".join(function["tests"])
    header = HEADER if "np." in function["code"] else "import pytest\n"  # pandas takes a second to import, 600 times
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "mod.py").write_text(header + function["code"])
        Path(folder, "test.py").write_text(f"{header}{IMPORT_ALL}\n{tests}")
        Path(folder, "config.toml").write_text(CONFIG)
        for command in ("init config.toml all.sqlite", "baseline config.toml", "exec config.toml all.sqlite"):
            subprocess.run(["cosmic-ray", *command.split()], cwd=folder, check=True, env=environment)
        dumped = subprocess.run(
            ["cosmic-ray", "dump", "all.sqlite"],
            cwd=folder,
            check=True,
            env=environment,
            capture_output=True,
            text=True,
        )
    outcomes: dict[str, dict[int, str]] = {}
    for item, result in map(json.loads, dumped.stdout.splitlines()):
        (mutation,) = item["mutations"]
        outcome = "timeout" if result["output"] == "timeout" else result["test_outcome"]
        outcomes.setdefault(mutation["operator_name"], {})[mutation["occurrence"]] = outcome[0]
    print(function["entry_point"], sum(map(len, outcomes.values())), flush=True)
    return {name: "".join(found[i] for i in range(len(found))) for name, found in sorted(outcomes.items())}


if __name__ == "__main__":
    sys.exit(main())
