"""Mutants of a program by cosmic-ray's operators. By itself, so that processes which mutate start quickly."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A program with one change: the `occurrence`-th place where cosmic-ray's `operator` applies."""

    operator: str
    occurrence: int
    program: str


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
