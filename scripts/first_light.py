"""What first_light.sh computes: which wheels a machine lacks, a random model, lengths, a forecast, and the table.

python first_light.py wheels DIR                     paths of the wheels in DIR to install
python first_light.py model DIRECTORY                Qwen2.5-Coder-1.5B with random weights and Qwen's vocabulary
python first_light.py lengths                        JSONL for `codea1 plan --lengths`: what random weights sample
python first_light.py forecast PLAN                  seconds of a step by what a run times, of `codea1 plan --json`
python first_light.py table FORECAST STAGES OUT      Markdown from what the stages have written into OUT
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path
from typing import Any

# Of the micro world's questions by Qwen's vocabulary, and of random programs in the Test LLM's prompts.
CODE_PROMPT, TEST_PROMPT, RESPONSE = 70, 766, 512
SAMPLES = 8
PACKAGES = ("jax", "jaxlib", "flax", "numpy", "codea1-jax")


@dataclass(frozen=True)
class Package:
    """A package's version and what it requires, lines as its metadata has them."""

    version: str
    requires: tuple[str, ...]


def wheels_to_install(directory: Path) -> list[Path]:
    """The carried wheels of packages that this Python lacks, or has in a version that does not suit the others."""
    paths = {_name(wheel.name.partition("-")[0]): wheel for wheel in sorted(directory.glob("*.whl"))}
    found = importlib.metadata.distributions()
    installed = {_name(each.name): Package(each.version, tuple(each.requires or ())) for each in found}
    sys.path.append(str(paths["packaging"]))  # Python imports from a wheel as it is
    carried = {name: _carried(wheel) for name, wheel in paths.items()}
    return [paths[name] for name in chosen(carried, installed)]


def chosen(carried: Mapping[str, Package], installed: Mapping[str, Package]) -> list[str]:
    """The carried packages to install, so that all that are carried, or there instead, suit each other."""
    taken = {name for name in carried if name not in installed}
    while True:
        used = {name: carried[name] if name in taken else installed[name] for name in carried}
        unmet = next(((name, needed) for name, needed in _unmet(used) if {name, needed} - taken), None)
        if unmet is None:
            return sorted(taken)
        name, needed = unmet
        taken.add(name if needed in taken else needed)


def _unmet(used: Mapping[str, Package]) -> Iterator[tuple[str, str]]:
    """Pairs of a package and one that it requires in another version."""
    from packaging.requirements import Requirement  # noqa: PLC0415  not installed everywhere

    for name, package in used.items():
        for requirement in map(Requirement, package.requires):
            needed = _name(requirement.name)
            here = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if here and needed in used and not requirement.specifier.contains(used[needed].version, prereleases=True):
                yield name, needed


def _carried(wheel: Path) -> Package:
    with zipfile.ZipFile(wheel) as files:
        [metadata] = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        fields = Parser().parsestr(files.read(metadata).decode(), headersonly=True)
    return Package(fields["Version"], tuple(fields.get_all("Requires-Dist", ())))


def _name(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def write_model(directory: Path) -> None:
    """Weights in bfloat16: 3 GB."""
    import jax.numpy as jnp  # noqa: PLC0415  not there where wheels are chosen

    from codea1_jax.models.published import QWEN25  # noqa: PLC0415  same
    from codea1_jax.models.qwen_vocabulary import make_tokenizer, read_ranks  # noqa: PLC0415  same
    from codea1_jax.models.random_model import write_random_model  # noqa: PLC0415  same

    write_random_model(directory, QWEN25["1.5b"], make_tokenizer(read_ranks()), jnp.bfloat16)


def lengths() -> str:
    """A group of each role, which a plan repeats."""
    prompts = {"code": CODE_PROMPT, "test": TEST_PROMPT}
    groups = [{"role": role, "prompt": prompt, "responses": [RESPONSE] * SAMPLES} for role, prompt in prompts.items()]
    return "\n".join(map(json.dumps, groups))


def forecast(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of a step by what a run times: of `codea1 plan --json`."""
    from codea1_jax.plan.comparison import TIMED  # noqa: PLC0415  not there where wheels are chosen

    phases = {name: sum(phase["step_seconds_expected"].values()) for name, phase in plan["phases"].items()}
    seconds = {part: sum(phases.get(phase, 0.0) for phase in timed) for part, timed in TIMED.items()}
    seconds["judge_wait"] = plan["judging_seconds_expected"]
    return {"hardware": plan["topology"], "seconds": {**seconds, "step": sum(seconds.values())}}


@dataclass(frozen=True)
class Stage:
    """How a stage ended. code: 0 if it passed, 124 if it ran out of time. limit: seconds that it had."""

    name: str
    code: int
    seconds: int
    limit: int


def table(
    machine: str,
    stages: Sequence[Stage],
    selftest: Mapping[str, Any] | str,
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    expected: Mapping[str, Any],
) -> str:
    """Markdown.

    selftest: its document, or the lines that it wrote before it was stopped. runs: metrics.jsonl by preset.
    expected: the forecast of a step of the last of them.
    """
    parts = [machine, _rows(("stage", "", "seconds", "at most"), map(_stage_cells, stages))]
    if isinstance(selftest, str):
        parts += ["## codea1 selftest, not ended", f"```text\n{selftest.strip()}\n```"]
    else:
        passed = {True: "yes", False: "**no**", None: ""}
        checks = [(c["name"], passed[c["passed"]], c["measured"], c["expected"]) for c in selftest["rows"]]
        parts += [
            f"## codea1 selftest {selftest['preset']}",
            _rows(("check", "passed", "measured", "expected"), checks),
        ]
    *_, last = runs
    for preset, lines in runs.items():
        forecasts = expected["seconds"] if preset == last else {}
        title = f", forecast for {expected['hardware']}" if forecasts else ""
        parts += [f"## {preset}: seconds of a step{title}", _seconds(lines, forecasts)]
    return "\n\n".join(parts) + "\n"


def _stage_cells(stage: Stage) -> tuple[str, ...]:
    ended = {0: "passed", 124: "**out of time**", 137: "**out of time**"}
    return stage.name, ended.get(stage.code, f"**failed ({stage.code})**"), str(stage.seconds), str(stage.limit)


def _seconds(lines: Sequence[Mapping[str, Any]], forecasts: Mapping[str, float]) -> str:
    """A row for each part of a step: what every step took, the forecast, and the last step in terms of it."""
    steps = [line for line in lines if line["kind"] == "train"]
    if not steps:
        return "No step was made."
    names = [key.removeprefix("seconds/") for key in steps[0] if key.startswith("seconds/")]
    head = (
        "part",
        *(f"step {line['step']}" for line in steps),
        *(("forecast", "last / forecast") if forecasts else ()),
    )
    rows = []
    for name in names:
        taken = [line[f"seconds/{name}"] for line in steps]
        row = [name, *map(_number, taken)]
        if forecasts:
            known = forecasts.get(name)
            row += [_number(known), _number(taken[-1] / known)] if known else ["", ""]
        rows.append(row)
    return _rows(head, rows)


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def describe_machine() -> str:
    """The card with its driver, versions, and the command."""
    query = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    try:
        cards = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        cards = "no card"
    versions = {each.name: each.version for each in importlib.metadata.distributions()}
    named = [f"{name} {versions[name]}" for name in PACKAGES if name in versions]
    named += sorted(f"{name} {version}" for name, version in versions.items() if name.startswith("jax-cuda"))
    return f"{cards}; Python {platform.python_version()}, {', '.join(named)}; `scripts/first_light.sh run DIR OUT`"


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _table_of(forecast_file: Path, stages: Path, out: Path) -> str:
    rows = [line.split("\t") for line in stages.read_text().splitlines()]
    ended = [Stage(name, int(code), int(seconds), int(limit)) for name, code, seconds, limit in rows]
    selftest = next(iter(_lines(out / "selftest.json")), (out / "selftest.log").read_text())
    runs = {"micro/a1": _lines(out / "micro.jsonl"), ended[-1].name: _lines(out / "full.jsonl")}
    return table(describe_machine(), ended, selftest, runs, json.loads(forecast_file.read_text()))


def main(command: str, *arguments: str) -> None:
    """Performs a command."""
    paths = list(map(Path, arguments))
    match command, paths:
        case "wheels", [directory]:
            print(*wheels_to_install(directory), sep="\n")
        case "model", [directory]:
            write_model(directory)
        case "lengths", []:
            print(lengths())
        case "forecast", [plan]:
            print(json.dumps(forecast(json.loads(plan.read_text()))))
        case "table", [forecast_file, stages, out]:
            print(_table_of(forecast_file, stages, out), end="")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
