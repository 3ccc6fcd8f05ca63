"""From raw rows to a clean, versioned dataset and a manifest that accounts for every row.

In order: read and refuse malformed rows; keep the wanted difficulties; drop duplicates and what overlaps with the
evaluation sets; describe the questions without their answers; run every solution against its tests, with the packages
that solutions import; write. The same input gives the same bytes.
"""

import hashlib
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from data_pipeline import tfds_files
from data_pipeline.hub import local_path
from data_pipeline.imports import packages_of
from data_pipeline.leakage import described, drop_duplicates, drop_overlaps
from data_pipeline.problem import Loaded, Problem, Refusal
from data_pipeline.reading import read
from data_pipeline.rows import files
from data_pipeline.sources import Recipe
from data_pipeline.validate import failures
from sandbox import Judge

_CHUNK = 64

Progress = Callable[[int, int], None]
OpenJudge = Callable[[Sequence[str]], AbstractContextManager[Judge]]
"""Opens a judge with these packages preloaded."""


@dataclass(frozen=True)
class Manifest:
    """Accounts for every row.

    kept_after: how many questions each rule leaves, in order; published: how many the paper trains on. dropped: the
    refused rows by kind of reason; refused: each with its reason. described: questions whose description leaves out
    answers that the question states. packages: those that solutions import and that were preloaded to run them.
    """

    name: str
    version: str
    input_sha256: str
    kept: dict[str, int]
    kept_after: dict[str, int]
    published: int | None
    described: int
    packages: list[str]
    dropped: dict[str, int]
    refused: list[Refusal]
    dropped_tests: list[Refusal]
    files_sha256: dict[str, str]


def prepare(
    recipe: Recipe, directory: str | Path, open_judge: OpenJudge, progress: Progress | None = None
) -> tuple[Path, Manifest]:
    """Writes the dataset below `directory`, with a `manifest.json` among its files; `progress` gets (done, all).

    Each run holds out its own share. Raises ValueError, in one line, for a source that cannot be read or that has no
    problems left, and sandbox.SandboxError if the sandbox itself fails.
    """
    source = local_path(recipe.source)
    loaded = read(source, recipe.difficulties)
    # A file may hold other datasets' rows as well.
    loaded = loaded.refusing({p.id: f"belongs to {p.source}" for p in loaded.problems if p.source != recipe.name})
    rows = len(loaded.problems) + len(loaded.refused)
    unwanted = sum(refusal.reason.startswith("difficulty ") for refusal in loaded.refused)
    kept_after = {"rows": rows, "of a wanted difficulty": rows - unwanted, "readable": len(loaded.problems)}
    evaluation = [problem for other in recipe.against for problem in read(local_path(other)).problems]
    loaded = drop_duplicates(loaded)
    kept_after["each question once"] = len(loaded.problems)
    loaded = drop_overlaps(loaded, evaluation)
    kept_after["no overlap with evaluation sets"] = len(loaded.problems)
    loaded = replace(loaded, problems=tuple(map(described, loaded.problems)))
    packages = _installed_packages(loaded.problems)
    with open_judge(packages) as judge:
        loaded = _validated(loaded, judge, progress)
    kept_after["the solution passes its tests"] = len(loaded.problems)
    kinds = (re.sub(r"\d+", "N", refusal.reason.partition(":")[0]) for refusal in loaded.refused)
    dropped = dict(Counter(kinds).most_common())
    if not loaded.problems:
        reasons = ", ".join(f"{count} {kind}" for kind, count in dropped.items())
        raise ValueError(f"{recipe.source}: no problems are left of {len(loaded.refused)} rows ({reasons})")
    path = tfds_files.write(directory, recipe.name, loaded.problems)
    manifest = Manifest(
        name=recipe.name,
        version=tfds_files.FORMAT_VERSION,
        input_sha256=_sha256(*files(source)),
        kept={tfds_files.SPLIT: len(loaded.problems)},
        kept_after=kept_after,
        published=recipe.published,
        described=sum(bool(problem.description) for problem in loaded.problems),
        packages=list(packages),
        dropped=dropped,
        refused=list(loaded.refused),
        dropped_tests=list(loaded.dropped),
        files_sha256={file.name: _sha256(file) for file in sorted(path.iterdir())},
    )
    (path / "manifest.json").write_text(json.dumps(asdict(manifest), indent=2) + "\n")
    return path, manifest


def _installed_packages(problems: Sequence[Problem]) -> tuple[str, ...]:
    imported = {name for problem in problems for name in packages_of(problem.solution)}
    return ("numpy", *sorted(name for name in imported - {"numpy"} if _is_installed(name)))


def _is_installed(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None and "site-packages" in spec.origin


def _validated(loaded: Loaded, judge: Judge, progress: Progress | None) -> Loaded:
    reasons: dict[str, str] = {}
    for start in range(0, len(loaded.problems), _CHUNK):
        chunk = loaded.problems[start : start + _CHUNK]
        for problem, reason in zip(chunk, failures(chunk, judge), strict=True):
            if reason is not None:
                reasons[problem.id] = reason
        if progress:
            progress(start + len(chunk), len(loaded.problems))
    return loaded.refusing(reasons)


def _sha256(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
