"""Mutants of a function by cosmic-ray's operators, as UnLeakedTestBench makes them, kept once made.

Every operator that takes no arguments is applied at every place where it can be, one place a mutant: what
`cosmic-ray init` does by default. Equivalent mutants are not looked for; they survive and count, as in the benchmark.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from codea1_jax.run.config import ConfigError
from codea1_jax.run.telemetry import write_atomically

CACHE = Path(".cache/mutants")


@dataclass(frozen=True)
class Mutant:
    """A program with one change: the `occurrence`-th place where cosmic-ray's `operator` applies."""

    operator: str
    occurrence: int
    program: str


def make_mutants(programs: Sequence[str], cache: Path = CACHE, workers: int | None = None) -> list[tuple[Mutant, ...]]:
    """The mutants of each program, from the cache where it knows them.

    Raises ConfigError where cosmic-ray is not installed.
    """
    version = _version()
    paths = [cache / f"{hashlib.sha256(f'{version} {program}'.encode()).hexdigest()}.json" for program in programs]
    todo = {program: path for program, path in zip(programs, paths, strict=True) if not path.exists()}
    if todo:
        with ProcessPoolExecutor(workers, get_context("spawn")) as processes:
            for path, mutants in zip(todo.values(), processes.map(mutate, todo), strict=True):
                write_atomically(path, json.dumps([asdict(mutant) for mutant in mutants]))
    return [tuple(Mutant(**mutant) for mutant in json.loads(path.read_text())) for path in paths]


def mutate(program: str) -> tuple[Mutant, ...]:
    """All mutants of one program, in cosmic-ray's order."""
    from cosmic_ray import plugins  # noqa: PLC0415  (an optional dependency)
    from cosmic_ray.ast import ast_nodes, get_ast  # noqa: PLC0415
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415

    nodes = tuple(ast_nodes(get_ast(program)))
    mutants = []
    for name in plugins.operator_names():
        kind = plugins.get_operator(name)
        if kind.arguments():
            continue
        operator = kind()
        places = sum(1 for node in nodes for _ in operator.mutation_positions(node))
        changed = (mutate_code(program, operator, i) for i in range(places))
        mutants += [Mutant(name, i, mutant) for i, mutant in enumerate(changed) if mutant is not None]
    return tuple(mutants)


def _version() -> str:
    try:
        return importlib.metadata.version("cosmic-ray")
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError("mutants are made by cosmic-ray: pip install 'codea1-jax[eval]'") from None
