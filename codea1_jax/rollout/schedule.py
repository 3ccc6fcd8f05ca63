"""Which sample sits in which row: continuous batching, decided on the host.

Every decision depends on the requests and on how many tokens each sample has drawn, never on time, so all
hosts of a pod decide alike. At each boundary between blocks a row whose sample ended takes its group's next
sample, and a slot whose group is complete takes the next waiting request. Requests wait in order of prompt
bucket, longest first, so that prompts resident together are alike and short ones do not pay for long ones.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from codea1_jax.rollout.decode import DecodedBlock, Rows
from codea1_jax.rollout.requests import Capacity, Completion, Request, bucket_of

_NO_LIMIT = np.iinfo(np.int32).max
Finished = tuple[int, tuple[Completion, ...]]  # a request's index and its completions, by sample


def sample_key(seed: int, stream: Sequence[int], sample: int) -> np.ndarray:
    """The random key (uint32[2]) of a sample: a digest of its identity, whatever else is being decoded."""
    identity = repr((int(seed), *map(int, stream), sample)).encode()
    return np.frombuffer(hashlib.blake2b(identity, digest_size=8).digest(), np.uint32)


@dataclass(frozen=True)
class Admission:
    """Prompts to prefill together. Rows of padding have a slot number that does not exist.

    prefilled: prompt tokens that are not padding.
    """

    tokens: np.ndarray  # int32 [prompts, bucket]
    slots: np.ndarray  # int32 [prompts]
    prefilled: int


@dataclass
class _Sample:
    """A sample in a row."""

    index: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


@dataclass
class _Group:
    """A request in a slot: its rows, how many of its samples have begun, and those that are complete."""

    request: int
    rows: list[_Sample | None]
    begun: int = 0
    completions: dict[int, Completion] = field(default_factory=dict)


class Schedule:
    """The slots of one call, from the first admission to the last completion."""

    def __init__(
        self,
        requests: Sequence[Request],
        capacity: Capacity,
        *,
        eos_ids: Sequence[int],
        pad_id: int,
        seed: int,
    ) -> None:
        self._requests = requests
        self._capacity = capacity
        self._eos_ids = frozenset(eos_ids)
        self._pad_id = pad_id
        self._seed = seed
        self._waiting = deque(sorted(range(len(requests)), key=lambda i: -self._bucket(i)))
        self._groups: dict[int, _Group] = {}  # by slot
        shape = (capacity.slots, capacity.width)
        self._prefix = np.zeros(capacity.slots, np.int32)
        self._token = np.full(shape, pad_id, np.int32)
        self._num_generated = np.zeros(shape, np.int32)
        self._active = np.zeros(shape, bool)
        self._key = np.zeros((*shape, 2), np.uint32)
        self._limit = np.full(shape, _NO_LIMIT, np.int32)

    def _bucket(self, request: int) -> int:
        return bucket_of(len(self._requests[request].prompt), self._capacity.prompt_buckets)

    @property
    def busy(self) -> bool:
        """Whether any row has a token to draw."""
        return bool(self._groups)

    def rows(self) -> Rows:
        """What the next block starts from."""
        host: Any = (self._prefix, self._token, self._num_generated, self._active, self._key)
        return Rows(*(array.copy() for array in host))  # a device may read them while they change here

    def limits(self) -> np.ndarray:
        """The most tokens of every row's sample, int32 [slots, width], where its request sets a limit."""
        return self._limit.copy()

    def columns(self) -> tuple[int, int]:
        """The prompt and response columns that the next block's rows need to look at."""
        prompt = max(self._bucket(group.request) for group in self._groups.values())
        longest = int(self._num_generated[self._active].max()) + self._capacity.block
        return prompt, bucket_of(longest, self._capacity.response_buckets) - self._capacity.block

    def admit(self) -> list[Admission]:
        """Gives free slots to waiting requests and returns the prefills that this takes."""
        entered: dict[int, list[int]] = {}  # slots by bucket
        for slot in range(self._capacity.slots):
            if slot not in self._groups and self._waiting:
                request = self._waiting.popleft()
                self._enter(slot, request)
                entered.setdefault(self._bucket(request), []).append(slot)
        admissions = []
        for bucket, slots in entered.items():
            size = self._capacity.prefill_rows(bucket)
            admissions += [self._admission(bucket, slots[i : i + size]) for i in range(0, len(slots), size)]
        return admissions

    def _enter(self, slot: int, request: int) -> None:
        self._groups[slot] = _Group(request, [None] * self._capacity.width)
        self._prefix[slot] = len(self._requests[request].prompt) - 1
        for row in range(self._capacity.width):
            self._begin_sample(slot, row)

    def _begin_sample(self, slot: int, row: int) -> None:
        """Puts the group's next sample, if one is left, into a row."""
        group = self._groups[slot]
        request = self._requests[group.request]
        self._active[slot, row] = group.begun < request.samples
        self._num_generated[slot, row] = 0
        group.rows[row] = None
        if self._active[slot, row]:
            group.rows[row] = _Sample(group.begun)
            self._token[slot, row] = request.prompt[-1]
            self._limit[slot, row] = request.limits[group.begun] if request.limits else _NO_LIMIT
            self._key[slot, row] = sample_key(self._seed, request.stream, group.begun)
            group.begun += 1

    def _admission(self, bucket: int, slots: list[int]) -> Admission:
        size = self._capacity.prefill_rows(bucket)
        tokens = np.full((size, bucket), self._pad_id, np.int32)
        for row, slot in enumerate(slots):
            prefix = self._requests[self._groups[slot].request].prompt[:-1]
            tokens[row, : len(prefix)] = prefix
        padded = slots + [self._capacity.slots] * (size - len(slots))
        return Admission(tokens, np.array(padded, np.int32), int(self._prefix[slots].sum()))

    def record(self, block: DecodedBlock) -> list[Finished]:
        """Takes in a block's tokens, moves every row on and returns the requests that are now complete."""
        tokens = np.asarray(block.tokens).transpose(1, 2, 0)  # [slots, width, block]
        logprobs = np.asarray(block.logprobs).transpose(1, 2, 0)
        for slot, group in self._groups.items():
            for row, sample in enumerate(group.rows):
                if sample is not None:
                    count = block.count[slot, row]
                    sample.tokens += tokens[slot, row, :count].tolist()
                    sample.logprobs += logprobs[slot, row, :count].tolist()
                    self._move_on(slot, row, sample, ended=not block.active[slot, row])
        return [self._leave(slot) for slot in sorted(self._groups) if self._complete(slot)]

    def _move_on(self, slot: int, row: int, sample: _Sample, *, ended: bool) -> None:
        if ended:
            completion = Completion(
                tuple(sample.tokens), tuple(sample.logprobs), finished=sample.tokens[-1] in self._eos_ids
            )
            self._groups[slot].completions[sample.index] = completion
            self._begin_sample(slot, row)
        else:
            self._token[slot, row] = sample.tokens[-1]
            self._num_generated[slot, row] = len(sample.tokens)

    def _complete(self, slot: int) -> bool:
        group = self._groups[slot]
        return len(group.completions) == self._requests[group.request].samples

    def _leave(self, slot: int) -> Finished:
        group = self._groups.pop(slot)
        return group.request, tuple(group.completions[sample] for sample in range(len(group.completions)))
