"""Mutants of a function by cosmic-ray's operators, as UnLeakedTestBench makes them, kept once made.

Every operator that takes no arguments is applied at every place where it can be, one place a mutant: what
`cosmic-ray init` does by default. Equivalent mutants are not looked for; they survive and count, as in the benchmark.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from codea1_jax.common.errors import UserError
from codea1_jax.common.files import write_atomically
from codea1_jax.evals.scores.mutate import Mutant, mutants_or_reason

CACHE = Path(".cache/mutants")
FORM = 2  # of what is kept there


def make_mutants(
    programs: Sequence[str],
    cache: Path = CACHE,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[tuple[Mutant, ...] | str]:
    """The mutants of each program, or why there are none; from the cache where it knows them.

    progress: shows how many programs are done, of how many. Raises UserError where cosmic-ray is not installed.
    """
    version = _version()
    paths = [
        cache / f"{hashlib.sha256(f'{version} {FORM} {program}'.encode()).hexdigest()}.json" for program in programs
    ]
    todo = {program: path for program, path in zip(programs, paths, strict=True) if not path.exists()}
    if todo:
        with ProcessPoolExecutor(workers, get_context("spawn")) as processes:
            made = processes.map(mutants_or_reason, todo)
            for done, (path, mutants) in enumerate(zip(todo.values(), made, strict=True), start=1):
                text = json.dumps(mutants if isinstance(mutants, str) else list(map(asdict, mutants)))
                write_atomically(path, text)
                progress(done, len(todo))
    return [_read(path) for path in paths]


def _read(path: Path) -> tuple[Mutant, ...] | str:
    made = json.loads(path.read_text())
    return made if isinstance(made, str) else tuple(Mutant(**mutant) for mutant in made)


def _version() -> str:
    try:
        return importlib.metadata.version("cosmic-ray")
    except importlib.metadata.PackageNotFoundError:
        raise UserError("mutants are made by cosmic-ray: pip install 'codea1-jax[eval]'") from None
