"""When training state is saved, where to, and which checkpoints stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Score = Callable[[int], float | None]  # of a step: how good the models were, None where it was not measured


@dataclass(frozen=True)
class Keep:
    """Keeps the newest checkpoints, the best, and every Nth (0: none). An Orbax preservation policy.

    Of equally good ones the newer is better.
    """

    last: int
    best: int
    score: Score
    every: int = 0

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> Sequence[bool]:
        """For every checkpoint, oldest first, whether it stays."""
        steps = [checkpoint.step for checkpoint in checkpoints]
        kept = self.kept(steps)
        return [step in kept for step in steps]

    def kept(self, steps: Sequence[int]) -> set[int]:
        """Those of the saved steps that stay."""
        scores = {step: score for step in steps if (score := self.score(step)) is not None}
        ranked = sorted(scores, key=lambda step: (scores[step], step), reverse=True)
        regular = [step for step in steps if self.every and step % self.every == 0]
        return {*sorted(steps)[-self.last :], *ranked[: self.best], *regular}
