"""Which sample sits in which row and owns which pages of the cache: continuous batching, decided on the host.

Every decision depends on the requests and on how many tokens each sample has drawn, never on time, so all hosts of a
pod decide alike. Between two blocks

1. every running sample gets the page that its next block fills. If a shard's pages run out, the youngest sample is
   preempted: its pages go to the others, and it is drawn again later, with the same tokens;
2. rows whose samples ended take waiting samples of resident prompts, the prompts that came first before the others;
3. if too many rows stay free, waiting prompts become resident, as many as fill a prefill, on the shards that lack work
   most. A prefill computes padding where it is not full, so it waits until a sixteenth of the rows have no sample.

A block decodes all rows, or a quarter of them where these hold all samples in progress, as when waiting samples run out
and the longest are still being drawn. The rows in use are then numbered anew, shard by shard.

Requests wait in order of prompt bucket, longest first, so that prompts resident together are alike.
"""

import hashlib
import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from codea1_jax.rollout.capacity import Capacity, bucket_of, pages_of
from codea1_jax.rollout.decode import DecodedBlock, PackedPrompts, ResidentPrompts, Rows
from codea1_jax.rollout.requests import Request
from codea1_jax.rollout.shards import DrawnSample, Group, Sample, Shard

PREFILL_AT = 1 / 16  # of the rows without a sample


Finished = tuple[int, tuple[DrawnSample, ...]]
"""A request's index and what its samples became, in their order."""


def sample_key(seed: int, stream: Sequence[int], sample: int) -> np.ndarray:
    """The random key (uint32[2]) of a sample: a digest of its identity, whatever else is being decoded."""
    identity = repr((int(seed), *map(int, stream), sample)).encode()
    return np.frombuffer(hashlib.blake2b(identity, digest_size=8).digest(), np.uint32)


class Schedule:
    """The rows of one call, from the first admission to the last completion.

    longest: the most tokens of any sample. preempted: samples so far that lost their rows for want of pages.
    completed: samples so far that have drawn all of their tokens, and completed_tokens these tokens.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        capacity: Capacity,
        *,
        longest: int,
        eos_ids: Sequence[int],
        pad_id: int,
        seed: int,
    ) -> None:
        self.preempted = self.completed = self.completed_tokens = 0
        self._requests = dict(enumerate(requests))
        self._added = len(requests)
        self._capacity = capacity
        self._longest = longest
        self._eos_ids = frozenset(eos_ids)
        self._pad_id = pad_id
        self._seed = seed
        longest_first = [-bucket_of(len(request.prompt), capacity.prompt_buckets) for request in requests]
        self._waiting = deque(sorted(range(len(requests)), key=longest_first.__getitem__))
        self._begun: dict[int, dict[int, DrawnSample]] = {}  # completions of requests that lost their slot
        self._shards = [Shard(number, capacity) for number in range(capacity.batch_shards)]
        nowhere, rows = capacity.pages, capacity.rows
        self._prompt_lengths = np.zeros(capacity.slots, np.int32)
        self._prompt_pages = np.full((capacity.slots, capacity.prompt_pages), nowhere, np.int32)
        self._place = np.full(rows, self._places, np.int32)
        self._prompt = np.zeros(rows, np.int32)
        self._token = np.full(rows, pad_id, np.int32)
        self._num_generated = np.zeros(rows, np.int32)
        self._active = np.zeros(rows, bool)
        self._key = np.zeros((rows, 2), np.uint32)
        self._pages = np.full((rows, capacity.response_pages), nowhere, np.int32)
        self._num_pages = np.zeros(rows, np.int32)
        self._limit = np.full(rows, longest, np.int32)
        self._samples: list[Sample | None] = [None] * rows
        drawn = (rows, pages_of(longest, capacity.block), capacity.block)
        self._drawn_tokens, self._drawn_logprobs = np.empty(drawn, np.int32), np.empty(drawn, np.float32)

    def add(self, request: Request) -> int:
        index = self._added
        self._requests[index] = request
        self._waiting.append(index)
        self._added += 1
        return index

    def drop(self, index: int) -> None:
        """Frees what a request that is not complete holds; nothing more comes of it. Only between two blocks."""
        if index in self._waiting:
            self._waiting.remove(index)
            self._begun.pop(index, None)
        for shard in self._shards:
            for group in [group for group in shard.groups if group.request == index]:
                for sample in [sample for sample in shard.samples if sample.group is group]:
                    self._vacate(shard, sample)
                self._evict(shard, group)
        del self._requests[index]

    @property
    def num_queued(self) -> int:
        return len(self._waiting)

    def samples(self) -> list[Sample | None]:
        return [self._samples[row] for row in self._decoded().tolist()]

    @property
    def _places(self) -> int:
        return self._capacity.slots // self._capacity.batch_shards * self._capacity.width

    @property
    def busy(self) -> bool:
        return bool(self._active.any())

    def _decoded(self) -> np.ndarray:
        """Which rows the next block decodes, by its own numbers: those in use, and others that fill the bucket."""
        in_use = self._active.reshape(len(self._shards), -1)
        fullest = int(in_use.sum(axis=1).max()) * len(self._shards)
        count = bucket_of(fullest, self._capacity.row_buckets) // len(self._shards)
        chosen = np.sort(np.argsort(~in_use, axis=1, kind="stable")[:, :count], axis=1)
        return (chosen + np.arange(len(self._shards))[:, None] * in_use.shape[1]).reshape(-1)

    def rows(self) -> Rows:
        here = self._decoded()
        host: Any = (self._place, self._prompt, self._token, self._num_generated, self._active, self._key, self._pages)
        return Rows(*(array[here] for array in host))  # copies: a device may read them while they change here

    def prompts(self) -> ResidentPrompts:
        running = [group.slot for shard in self._shards for group in shard.groups if group.running]
        lengths = np.zeros_like(self._prompt_lengths)
        lengths[running] = self._prompt_lengths[running]
        host: Any = (lengths, self._prompt_pages.copy())
        return ResidentPrompts(*host)

    def limits(self) -> np.ndarray:
        return self._limit[self._decoded()]

    def columns(self) -> tuple[int, int]:
        return self._capacity.columns(*(int(of[self._active].max()) for of in (self._prompt, self._num_generated)))

    def admit(self) -> list[PackedPrompts]:
        pressed = [self._grow(shard) for shard in self._shards]
        prefills: list[PackedPrompts] = []
        while True:
            for shard in self._shards:
                self._begin_samples(shard)
            if any(pressed) or not self._lacks_work():
                return prefills
            admitted = self._admit_requests()
            pages = [page for groups in admitted for group in groups for page in group.pages]
            if pages:  # prompts of one token have none
                prefills.append(self._pack(admitted))

    def _lacks_work(self) -> bool:
        """Whether enough rows are free for which no sample is resident, on shards where a prompt has room."""
        if not self._waiting:
            return False
        needed = self._pages_of_next()
        idle = [shard.idle for shard in self._shards if self._has_room(shard, needed + self._growth(shard, 2))]
        return bool(idle) and (not self.busy or sum(idle) >= max(1, PREFILL_AT * self._capacity.rows))

    def _pages_of_next(self) -> int:
        return pages_of(len(self._requests[self._waiting[0]].prompt) - 1, self._capacity.block)

    def _grow(self, shard: Shard) -> bool:
        """Gives every running sample its next page; returns whether others had to give theirs."""
        lacking = np.flatnonzero(self._lack_page(shard.here)) + shard.here.start
        if len(lacking) <= len(shard.pages):
            self._give_pages(shard, lacking)
            return False
        for sample in list(shard.samples):  # the oldest first
            while sample.running and self._lack_page(sample.row):
                if shard.pages:
                    self._give_pages(shard, np.array([sample.row]))
                else:
                    self._free_some_pages(shard)
        return True

    def _lack_page(self, rows: slice | int) -> np.ndarray | np.generic:
        """Which rows have a sample whose next block is not its last, and has no page to go to."""
        block, done = self._capacity.block, self._num_generated[rows]
        more = done + block < self._limit[rows]
        return self._active[rows] & more & (self._num_pages[rows] * block <= done)

    def _give_pages(self, shard: Shard, rows: np.ndarray) -> None:
        self._pages[rows, self._num_pages[rows]] = shard.take(len(rows))
        self._num_pages[rows] += 1

    def _free_some_pages(self, shard: Shard) -> None:
        """From the prompt that came last of those nobody is decoding for, or else from the youngest sample."""
        unused = [group for group in shard.groups if not group.running]
        if unused:
            group = unused[-1]
            self._begun[group.request] = group.completions
            self._waiting.appendleft(group.request)
            self._evict(shard, group)
            return
        sample = shard.samples[-1]
        sample.group.waiting.appendleft(sample.index)
        shard.waiting += 1
        self._vacate(shard, sample)
        self.preempted += 1

    def _begin_samples(self, shard: Shard) -> None:
        """Puts waiting samples into free rows, as long as all that run could then still grow by a page."""
        reserve = self._growth(shard, 1)
        for group in shard.groups:
            while group.waiting and group.places and shard.rows:
                if shard.samples and len(shard.pages) < reserve + min(2, self._capacity.response_pages):
                    return
                reserve += min(1, int(self._needs(self._begin(shard, group).row)))

    def _needs(self, rows: slice | int) -> np.ndarray | np.generic:
        return -(-self._limit[rows] // self._capacity.block) - 1 - self._num_pages[rows]

    def _growth(self, shard: Shard, blocks: int) -> int:
        """Pages that running samples may fill in their next `blocks` blocks."""
        needed = np.minimum(blocks, self._needs(shard.here))
        return int(needed.sum(where=self._active[shard.here]))

    def _begin(self, shard: Shard, group: Group) -> Sample:
        request = self._requests[group.request]
        index, row = group.waiting.popleft(), heapq.heappop(shard.rows)
        limit = min(self._longest, request.limits[index]) if request.limits else self._longest
        sample = self._samples[row] = Sample(group, index, row, heapq.heappop(group.places))
        group.running += 1
        shard.waiting -= 1
        shard.samples.append(sample)
        self._place[row] = sample.place
        self._prompt[row] = len(request.prompt) - 1
        self._token[row] = request.prompt[-1]
        self._num_generated[row] = 0
        self._active[row] = True
        seed = self._seed if request.seed is None else request.seed
        self._key[row] = sample_key(seed, request.stream, request.first + index)
        self._limit[row] = limit
        if self._lack_page(row):
            self._give_pages(shard, np.array([row]))
        return sample

    def _vacate(self, shard: Shard, sample: Sample) -> None:
        row, sample.running = sample.row, False
        shard.samples.remove(sample)
        shard.give_back(self._pages[row, : self._num_pages[row]].tolist())
        heapq.heappush(shard.rows, row)
        heapq.heappush(sample.group.places, sample.place)
        sample.group.running -= 1
        self._samples[row] = None
        self._place[row] = self._places
        self._num_generated[row] = self._num_pages[row] = 0
        self._active[row] = False
        self._pages[row] = self._capacity.pages

    def _admit_requests(self) -> list[list[Group]]:
        """Makes waiting prompts resident, by shard: what one prefill holds, or what there is room for."""
        admitted: list[list[Group]] = [[] for _ in self._shards]
        room = [self._capacity.prefill_buckets[-1] // self._capacity.block] * len(self._shards)
        growth = [self._growth(shard, 2) for shard in self._shards]
        while self._waiting:
            needed = self._pages_of_next()
            fitting = [
                number
                for number, shard in enumerate(self._shards)
                if needed <= room[number] and self._has_room(shard, needed + growth[number])
            ]
            if not fitting:
                break
            number = max(fitting, key=lambda number: (self._shards[number].idle, -number))
            admitted[number].append(self._admit(self._shards[number], self._waiting.popleft(), needed))
            room[number] -= needed
        return admitted

    def _has_room(self, shard: Shard, needed: int) -> bool:
        """Whether there is a slot, and pages besides one for each sample about to begin, which an idle shard has."""
        beginning = min(shard.waiting, len(shard.rows)) * min(1, self._capacity.response_pages)
        return bool(shard.slots) and (len(shard.pages) >= needed + beginning or not shard.groups)

    def _admit(self, shard: Shard, request: int, needed: int) -> Group:
        slot, completions = heapq.heappop(shard.slots), self._begun.pop(request, {})
        samples = deque(index for index in range(self._requests[request].samples) if index not in completions)
        width = self._capacity.width
        first = slot * width % self._places
        group = Group(request, slot, shard.take(needed), samples, list(range(first, first + width)), completions)
        shard.groups.append(group)
        shard.waiting += len(samples)
        self._prompt_lengths[slot] = len(self._requests[request].prompt) - 1
        self._prompt_pages[slot, :needed] = group.pages
        return group

    def _evict(self, shard: Shard, group: Group) -> None:
        shard.groups.remove(group)
        shard.waiting -= len(group.waiting)
        shard.give_back(group.pages)
        heapq.heappush(shard.slots, group.slot)
        self._prompt_lengths[group.slot] = 0
        self._prompt_pages[group.slot] = self._capacity.pages

    def _pack(self, admitted: Sequence[Sequence[Group]]) -> PackedPrompts:
        block = self._capacity.block
        longest = max(sum(len(group.pages) for group in groups) for groups in admitted) * block
        shape = (len(admitted), bucket_of(max(longest, block), self._capacity.prefill_buckets))
        tokens = np.full(shape, self._pad_id, np.int32)
        segments, positions = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        pages = np.full((shape[0], shape[1] // block), self._capacity.pages, np.int32)
        for shard, groups in enumerate(admitted):
            start = 0
            for segment, group in enumerate(groups, start=1):
                prompt = self._requests[group.request].prompt[:-1]
                here = slice(start, start + len(prompt))
                tokens[shard, here], segments[shard, here] = prompt, segment
                positions[shard, here] = np.arange(len(prompt))
                pages[shard, start // block : start // block + len(group.pages)] = group.pages
                start += len(group.pages) * block
        host: Any = (tokens, segments, positions, pages)
        return PackedPrompts(*host)

    def record(self, block: DecodedBlock) -> list[Finished]:
        """Takes in a block's tokens, moves every row on and returns the requests that are now complete."""
        decoded, length = self._decoded(), self._capacity.block
        running, active, count = self._active[decoded], np.asarray(block.active), np.asarray(block.count)
        rows = decoded[running]
        here = rows, self._num_generated[rows] // length
        self._drawn_tokens[here] = np.asarray(block.tokens).T[running]
        self._drawn_logprobs[here] = np.asarray(block.logprobs).T[running]
        continuing, ended = decoded[active], running & ~active
        self._token[continuing] = np.asarray(block.tokens)[-1, active]
        self._num_generated[continuing] += length
        for row, drawn in zip(decoded[ended].tolist(), count[ended].tolist(), strict=True):
            self._complete(row, int(self._num_generated[row]) + drawn)
        return [finished for shard in self._shards for finished in self._leave(shard)]

    def _complete(self, row: int, length: int) -> None:
        sample = self._samples[row]
        assert sample is not None  # only samples end
        self.completed += 1
        self.completed_tokens += length
        tokens, logprobs = (drawn[row].ravel()[:length].copy() for drawn in (self._drawn_tokens, self._drawn_logprobs))
        sample.group.completions[sample.index] = DrawnSample(tokens, logprobs, int(tokens[-1]) in self._eos_ids)
        self._vacate(self._shards[row * len(self._shards) // self._capacity.rows], sample)

    def _leave(self, shard: Shard) -> Iterator[Finished]:
        for group in list(shard.groups):
            if len(group.completions) == self._requests[group.request].samples:
                self._evict(shard, group)
                del self._requests[group.request]
                yield group.request, tuple(group.completions[sample] for sample in range(len(group.completions)))
