"""Mutants of a function by cosmic-ray's operators, as UnLeakedTestBench makes them, kept once made.

Every operator that takes no arguments is applied at every place where it can be, one place a mutant: what
`cosmic-ray init` does by default. Equivalent mutants are not looked for; they survive and count, as in the benchmark.

The processes that mutate import this module: it imports little, so that they start quickly.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from codea1_jax.common.errors import UserError
from codea1_jax.common.files import write_atomically

CACHE = Path(".cache/mutants")
FORM = 2  # of what is kept there
MOST = 100_000_000  # characters of all mutants of a program: minutes of work; a real function's are some 5 million

# Stands for a mutant that cosmic-ray lists, fails to make (`except (json.Error, KeyError)`) and counts as killed.
UNMADE = 'raise ImportError("cosmic-ray cannot make this mutant")\n'

# What cosmic-ray may raise over a function, as no outage does.
_FAULTS = (AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True)
class Mutant:
    """A program with one change: the `occurrence`-th place where cosmic-ray's `operator` applies."""

    operator: str
    occurrence: int
    program: str


def mutate(program: str) -> tuple[Mutant, ...]:
    """All mutants of one program, in cosmic-ray's order. Raises ValueError where they would be too many."""
    places = list(_places(program))
    if len(places) * len(program) > MOST:
        raise ValueError(f"{len(places)} mutants of {len(program)} characters each are too many")
    return tuple(Mutant(name, i, _mutated(program, operator, i)) for name, operator, i in places)


def mutants_or_reason(program: str) -> tuple[Mutant, ...] | str:
    """The mutants of one program, or why there are none."""
    try:
        return mutate(program)
    except _FAULTS as error:
        return f"cosmic-ray cannot mutate it: {type(error).__name__}: {error}"


def _places(program: str) -> Iterator[tuple[str, Any, int]]:
    """Every operator's name, the operator, and the number of each place where it applies."""
    from cosmic_ray import plugins  # noqa: PLC0415  (an optional dependency)
    from cosmic_ray.ast import ast_nodes, get_ast  # noqa: PLC0415

    nodes = tuple(ast_nodes(get_ast(program)))
    for name in plugins.operator_names():
        kind = plugins.get_operator(name)
        if not kind.arguments():
            operator = kind()
            places = sum(1 for node in nodes for _ in operator.mutation_positions(node))
            yield from ((name, operator, i) for i in range(places))


def _mutated(program: str, operator: Any, occurrence: int) -> str:
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415

    try:
        return mutate_code(program, operator, occurrence) or UNMADE
    except AttributeError:  # the exceptions' operator takes only plain names
        return UNMADE


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
