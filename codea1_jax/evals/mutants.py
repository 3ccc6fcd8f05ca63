"""Mutants of a function by cosmic-ray's operators, as UnLeakedTestBench makes them.

Every operator that takes no arguments is applied at every place where it can be, one place a mutant: what
`cosmic-ray init` does by default. Equivalent mutants are not looked for; they survive and count, as in the benchmark.
(Those that rewards and held-out questions use are `data_pipeline.mutants`.)

The processes that mutate import this module: it imports little, so that they start quickly.
"""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from codea1_jax.common.errors import UserError

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
    try:
        return mutate(program)
    except _FAULTS as error:
        return f"cosmic-ray cannot mutate it: {type(error).__name__}: {error}"


def _places(program: str) -> Iterator[tuple[str, Any, int]]:
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
    programs: Sequence[str], progress: Callable[[int, int], None] = lambda done, total: None
) -> list[tuple[Mutant, ...] | str]:
    """The mutants of each program, or why there are none; in one process a core.

    progress: shows how many programs are done, of how many. Raises UserError where cosmic-ray is not installed.
    """
    if importlib.util.find_spec("cosmic_ray") is None:
        raise UserError("mutants are made by cosmic-ray: pip install 'codea1-jax[eval]'")
    mutants = []
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        for made in processes.map(mutants_or_reason, programs):
            mutants.append(made)
            progress(len(mutants), len(programs))
    return mutants
