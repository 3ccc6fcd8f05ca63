"""What a suite can earn in place of the paper's adversarial term: the share of the reference's mutants that it kills.

Each suite by itself, as in MIST-RL (arXiv 2603.01409) but without its penalty; or sharing what it finds with its
siblings. Pure functions.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from sandbox import Outcome, Test, verdict_on


@dataclass(frozen=True)
class Detections:
    """By the call of each valid test of a question, the numbers of the mutants that fail it; and how many there are."""

    by_call: Mapping[str, frozenset[int]]
    total: int


def own_values(suites: Sequence[Sequence[Test]], detections: Detections) -> list[float]:
    """Of each suite the share of the mutants that its tests kill together. Without mutants, 0."""
    return [len(killed) / max(detections.total, 1) for killed in _killed(suites, detections)]


def shared_values(suites: Sequence[Sequence[Test]], detections: Detections) -> list[float]:
    """Of each of a question's m suites m · Σ 1 / (how many of them kill it) / total, over the mutants that it kills.

    Competitive fitness sharing (Rosin and Belew, Evolutionary Computation 5(1), 1997): what only one suite finds is
    worth most. The values sum to m times the share that all suites kill together. Without mutants, 0.
    """
    killed = _killed(suites, detections)
    finders = Counter(chain.from_iterable(killed))
    scale = len(suites) / max(detections.total, 1)
    return [scale * sum(1 / finders[mutant] for mutant in own) for own in killed]


def _killed(suites: Sequence[Sequence[Test]], detections: Detections) -> list[frozenset[int]]:
    return [frozenset[int]().union(*(detections.by_call[test.call] for test in tests)) for tests in suites]


def detect(tests: Iterable[Test], mutants: Sequence[Mapping[str, Outcome]]) -> Detections:
    """What tests kill; `mutants` are what each of them gave, by the call's text."""
    by_call = {
        test.call: frozenset(i for i, ended in enumerate(mutants) if not verdict_on(ended[test.call], test).passed)
        for test in tests
    }
    return Detections(by_call, len(mutants))
