"""Rehearses presets in turn and prints what each took: `make rehearse-all`, minutes a preset.

    python scripts/rehearse_all.py [key=value ...] [--presets NAME ...]

By default every size of Qwen2.5-Coder with a1, golden, self_play and sft, on v5e, v5p, v6e and H100s. Overrides are for
all of them, such as data that is here. Presets share their compiled programs. A stopped sweep resumes where it was: a
preset that has passed with these overrides is not rehearsed again until all have. Presets that are named always are.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from codea1_jax.common.files import read_lines
from codea1_jax.devices.chips import GIB

MODELS = ("1.5b", "3b", "7b")
METHODS = ("a1", "golden", "self_play", "sft")
HARDWARE = ("h100", "v5p", "v6e", "v5e")
CACHE = Path(".cache")
PASSED = CACHE / "rehearsed.jsonl"
COMPILED = CACHE / "rehearsed_programs"


def rehearse(preset: str, overrides: list[str]) -> dict:
    """The rehearsal's own document. A directory whose rehearsal has failed is left."""
    directory = Path("rehearsals") / preset.replace("/", "-")
    environment = {"JAX_COMPILATION_CACHE_DIR": str(COMPILED.absolute()), **os.environ}
    command = [sys.executable, "-m", "codea1_jax", "rehearse", preset, "--directory", str(directory), "--json"]
    ended = subprocess.run([*command, *overrides], env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if not ended.stdout:
        sys.exit(ended.returncode)  # it could not begin, and has said why
    if ended.returncode == 0:
        shutil.rmtree(directory)
    return json.loads(ended.stdout)


def already_passed(overrides: list[str]) -> dict[str, dict]:
    """Documents of the rehearsals that have passed with these overrides since the last whole sweep, by preset."""
    found = read_lines(PASSED) if PASSED.exists() else []
    return {each["preset"]: each for each in found if each["overrides"] == overrides}


def line(document: dict) -> str:
    """What a preset's rehearsal came to."""
    *_, last = document["stages"]
    took = f"{sum(stage['seconds'] for stage in document['stages']):5.0f} s {document['peak_bytes'] / GIB:5.1f} GiB"
    outcome = "passed" if last["works"] else f"FAILED {last['name']}: {last['detail']}"
    return f"{document['preset']:20}{document['hardware']:10}{took}  {outcome}"


def main() -> int:
    """The number of presets that failed."""
    parser = argparse.ArgumentParser(description="Rehearses presets in turn.")
    every = [f"{m}/{method}_{kind}" for m, kind, method in itertools.product(MODELS, HARDWARE, METHODS)]
    parser.add_argument("--presets", nargs="+", metavar="NAME")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    options = parser.parse_args()
    CACHE.mkdir(exist_ok=True)
    passed = {} if options.presets else already_passed(options.overrides)
    documents = []
    for preset in options.presets or every:
        document = passed.get(preset) or rehearse(preset, options.overrides)
        documents.append(document)
        if not document["failed"] and preset not in passed:
            with PASSED.open("a", encoding="utf-8") as file:
                file.write(json.dumps(document | {"overrides": options.overrides}) + "\n")
        print(line(document), file=sys.stderr, flush=True)
    print(*map(line, documents), sep="\n")
    failed = sum(bool(document["failed"]) for document in documents)
    if not failed and not options.presets:
        PASSED.unlink(missing_ok=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
