"""What a schedule keeps of each part of the mesh: its rows, slots and pages, the prompts in them, and their samples."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from codea1_jax.rollout.capacity import Capacity
from codea1_jax.rollout.requests import Completion


class DrawnSample(NamedTuple):
    """The tokens that a sample drew. finished: whether an end-of-sequence token is the last of them."""

    tokens: np.ndarray
    logprobs: np.ndarray
    finished: bool

    def completion(self) -> Completion:
        """The same as tuples. That takes a while, so it is left until the devices have their next block."""
        return Completion(tuple(self.tokens.tolist()), tuple(self.logprobs.tolist()), self.finished)


@dataclass(eq=False)
class Group:
    """A resident request. waiting: its samples that are in no row. places: of its slot, those that are free."""

    request: int
    slot: int
    pages: list[int]
    waiting: deque[int]
    places: list[int]
    completions: dict[int, DrawnSample] = field(default_factory=dict)
    running: int = 0


@dataclass(eq=False)
class Sample:
    """What it has drawn, how long it may become and its pages are in the schedule's arrays."""

    group: Group
    index: int
    row: int
    place: int
    running: bool = True


class Shard:
    """Rows, slots and pages of one part of the mesh.

    here: its rows. rows, slots: those that are free, as heaps, so that the first are used first. pages: those that are
    free; the last is used first. waiting: samples of resident prompts that are in no row.
    """

    def __init__(self, number: int, capacity: Capacity) -> None:
        rows, slots, pages = (n // capacity.batch_shards for n in (capacity.rows, capacity.slots, capacity.pages))
        self.here = slice(number * rows, (number + 1) * rows)
        self.rows = list(range(number * rows, (number + 1) * rows))
        self.slots = list(range(number * slots, (number + 1) * slots))
        self.pages = list(reversed(range(pages)))
        self.groups: list[Group] = []  # by arrival
        self.samples: list[Sample] = []  # by birth
        self.waiting = 0

    @property
    def idle(self) -> int:
        return len(self.rows) - self.waiting

    def take(self, count: int) -> list[int]:
        taken = self.pages[: -count - 1 : -1]
        del self.pages[len(self.pages) - count :]
        return taken

    def give_back(self, pages: Sequence[int]) -> None:
        self.pages.extend(reversed(pages))
