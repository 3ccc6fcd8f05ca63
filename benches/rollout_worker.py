"""What every contender of bench_rollout.py shares: a workload, and a loop that plays it whenever the bench asks.

Standard library only, because each contender runs in its own environment.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from contenders import turns

MODEL, WORKLOADS = "model", "workloads.json"


@dataclass(frozen=True)
class Workload:
    """Prompts, and how many tokens each sample of each prompt is to have."""

    prompts: list[list[int]]
    lengths: list[list[int]]

    @property
    def tokens(self) -> int:
        """Tokens that are asked for: those of no sequence that continues after its end count."""
        return sum(map(sum, self.lengths))

    def static_batches(self, size: int) -> Iterator[tuple[list[list[int]], int]]:
        """The samples in their order, that many at a time: their prompts, and the length of the longest response."""
        samples = [(p, n) for p, lengths in zip(self.prompts, self.lengths, strict=True) for n in lengths]
        for start in range(0, len(samples), size):
            batch = samples[start : start + size]
            yield [prompt for prompt, _ in batch], max(length for _, length in batch)


def answer(directory: Path, play: Callable[[Workload], object]) -> None:
    workloads = {name: Workload(**fields) for name, fields in json.loads((directory / WORKLOADS).read_text()).items()}
    for name in turns():
        play(workloads[name])
