"""The sampler: requests in, completions out, over a fixed number of rows and of pages.

Each row decodes one sample. A prompt is prefilled once and its keys and values are stored once, whatever the number of
its samples. The host looks at the rows only between blocks of tokens, where finished samples leave and the next ones
enter (`schedule`); what happens inside a block happens on the device (`decode`).
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from codea1_jax.common.activity import report
from codea1_jax.models.ahead import CompileAhead, Kind, Program
from codea1_jax.models.decoder import Params, Transformer
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.rollout.cache import Cache
from codea1_jax.rollout.capacity import Capacity
from codea1_jax.rollout.decode import (
    DecodedBlock,
    Decoder,
    PackedPrompts,
    check_shards,
    make_decoder,
    new_cache,
    prefill,
)
from codea1_jax.rollout.decode_params import to_decode_params
from codea1_jax.rollout.programs import sampling_programs
from codea1_jax.rollout.requests import Completion, Request, Sampling
from codea1_jax.rollout.sampling import Controls, SamplingKind
from codea1_jax.rollout.schedule import Finished, Schedule
from codea1_jax.runtime.devices import return_freed_memory


@dataclass
class Counters:
    """Work done since the sampler was made.

    prefilled: prompt tokens run through the model, without padding; a prompt's last token is decoded instead.
    prefill_places: the same, with padding.
    blocks: decode blocks.
    steps: the steps they ran, each one token for every row of the block.
    decoded: tokens that these steps computed, also in rows without a sample.
    drawn: tokens of completions.
    preempted: samples that lost their row for want of pages, and were drawn again.
    """

    prefilled: int = 0
    prefill_places: int = 0
    blocks: int = 0
    steps: int = 0
    decoded: int = 0
    drawn: int = 0
    preempted: int = 0

    def since(self, before: "Counters") -> "Counters":
        return Counters(**{name: count - getattr(before, name) for name, count in vars(self).items()})

    def goodput(self, seconds: float) -> dict[str, float]:
        """Figures of this work, which took so long; none if nothing was drawn.

        `decode_goodput` and `prefill_goodput` are the shares of the computed tokens that were of use: of completions,
        and of prompts. The rest are rows without a sample, tokens that are drawn again, and padding.
        """
        if not self.drawn:
            return {}
        # A prompt of one token needs no prefill.
        prefill = {"prefill_goodput": self.prefilled / self.prefill_places} if self.prefill_places else {}
        return {
            "tokens_per_second": self.drawn / seconds,
            "decode_goodput": self.drawn / self.decoded,
            "preempted": float(self.preempted),
            **prefill,
        }


@dataclass
class Rollout:
    """A schedule's samples while they are drawn: how, from what parameters, and the cache they share."""

    schedule: Schedule
    kind: SamplingKind
    params: Params
    cache: Cache


class Sampler:
    """Samples completions from a policy.

    A sample's tokens depend on the parameters, the seed, the request's stream and prompt and the sample's
    index in the request; not on the other requests, on `capacity`, or on the order in which rows are filled
    (up to rounding: another shape may sum in another order).

    eos_ids: a completion ends with, and includes, the first of these tokens that it draws.
    pad_id: any token; it fills prompts up to their bucket and no attention sees it.
    mesh: where it decodes, by default the first device alone; ValueError if the capacity is not of as many shards.
    samples: what samples are called where their number is reported.
    ahead: whether all programs for decoding are compiled up front, rather than each when it is first needed.
    counters: work done so far.
    """

    def __init__(
        self,
        model: Transformer,
        *,
        eos_ids: Sequence[int],
        pad_id: int,
        seed: int,
        capacity: Capacity,
        mesh: Mesh | None = None,
        samples: str = "samples",
        ahead: bool = True,
    ) -> None:
        self.counters = Counters()
        self._samples = samples
        self._model = model
        self._mesh = one_device_mesh() if mesh is None else mesh
        check_shards(capacity, self._mesh)
        self._eos_ids = tuple(eos_ids)
        self._pad_id = pad_id
        self._seed = seed
        self._capacity = capacity
        self._kinds: set[SamplingKind] = set()  # of which programs are compiled
        self._ahead = CompileAhead()
        self._defer: Kind | None = None if ahead else "decode"
        self._to_decode_params = to_decode_params(model, self._mesh)

    def generate(
        self, params: Params, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[int, tuple[Completion, ...]]]:
        """Yields (index of the request, its completions by sample) as soon as all of them are complete.

        The order is deterministic but seldom that of the requests. The next block is already running on the
        device while the caller works on what was yielded. The cache lives as long as the iterator.

        Raises ValueError at once if a request does not fit the capacity, and, while iterated,
        FloatingPointError if the policy's logits are not finite.
        """
        longest = self._capacity.response_buckets[-1]
        if sampling.max_new_tokens > longest:
            raise ValueError(f"max_new_tokens={sampling.max_new_tokens} exceeds the largest response bucket {longest}")
        for request in requests:
            if len(request.prompt) > self._capacity.prompt_buckets[-1]:
                raise ValueError(
                    f"request {request.stream}: a prompt of {len(request.prompt)} tokens exceeds the largest "
                    f"prompt bucket {self._capacity.prompt_buckets[-1]}"
                )
        return self._run(params, requests, sampling)

    def _run(
        self, params: Params, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[int, tuple[Completion, ...]]]:
        kind = SamplingKind.of(sampling)
        self.compile(params, kind)
        rollout = self.open(params, requests, kind, sampling.max_new_tokens)
        schedule, controls, finished = rollout.schedule, Controls.of(sampling), []
        samples, drawn, seconds = sum(request.samples for request in requests), 0, 0.0
        while True:
            prefills = schedule.admit()
            if not schedule.busy:
                break
            running = self.start_block(rollout, prefills, controls)
            began = time.perf_counter()  # after compiling, which would lower the rate
            yield from map(_completed, finished)  # while the device works
            block = self.fetch(running)
            seconds, drawn = seconds + time.perf_counter() - began, drawn + int(np.sum(block.count))
            finished = schedule.record(block)
            note, left = f"{drawn:,} tokens, {drawn / seconds:.1f} a second", None
            expected = schedule.completed_tokens * samples / max(1, schedule.completed)
            if expected > drawn:  # else by the rate of samples: those that ended were short
                left = (expected / drawn - 1) * seconds
            report("sampling", schedule.completed, samples, self._samples, note, left)
            self.counters.drawn += sum(len(sample.tokens) for _, samples in finished for sample in samples)
        yield from map(_completed, finished)
        self.counters.preempted += schedule.preempted
        del rollout
        return_freed_memory()

    def open(self, params: Params, requests: Sequence[Request], kind: SamplingKind, longest: int) -> Rollout:
        settings: dict[str, Any] = {"eos_ids": self._eos_ids, "pad_id": self._pad_id, "seed": self._seed}
        schedule = Schedule(requests, self._capacity, longest=longest, **settings)
        self._ahead.wait("weights")
        cache = new_cache(self._model, self._capacity, self._mesh)
        return Rollout(schedule, kind, self._to_decode_params(params), cache)

    def compile(self, params: Params, kind: SamplingKind, *, by_row: bool = False) -> list[Program]:
        """Begins to compile what samples of this kind need, unless it has begun; returns what it began.

        params: as they will be sampled from, or their shapes. by_row: whether every row has controls of its own.
        """
        if kind in self._kinds:
            return []
        self._kinds.add(kind)
        model, mesh = self._model, self._mesh
        programs = sampling_programs(model, mesh, self._capacity, self._eos_ids, kind, params, by_row=by_row)
        return self._ahead.start(programs, defer=self._defer)

    def compiling(self) -> Iterator[tuple[int, int]]:
        """Waits for these programs; yields how many are ready, and of how many."""
        return self._ahead.progress()

    def start_block(self, rollout: Rollout, prefills: Sequence[PackedPrompts], controls: Controls) -> Any:
        schedule, params = rollout.schedule, rollout.params
        arguments = schedule.prompts(), schedule.rows(), controls._replace(max_new_tokens=schedule.limits())
        decoder = make_decoder(self._model, self._mesh, self._capacity, self._eos_ids, rollout.kind, schedule.columns())
        shape = len(arguments[1].token) // self._capacity.batch_shards, *decoder.columns
        self._ahead.begin("decode", shape)
        if prefills:
            self._ahead.wait("prefill")
        lengths = [int(np.count_nonzero(packed.segments)) for packed in prefills]
        on_cpu = self._mesh.devices.flat[0].platform == "cpu"
        for number, packed in enumerate(prefills):
            if number and on_cpu:  # which takes minutes for them; others take in the next while they compute
                jax.block_until_ready(rollout.cache)
                report("reading", sum(lengths[:number]), sum(lengths), "prompt tokens")
            self.counters.prefill_places += packed.segments.size
            rollout.cache = prefill(self._model, self._mesh, params, rollout.cache, packed)
        self.counters.prefilled += sum(lengths)
        self._ahead.wait("decode", shape)
        rollout.cache, running = self._decode(decoder, params, rollout.cache, *arguments)
        return running

    def fetch(self, running: Any) -> DecodedBlock:
        """A started block, once it is on the host. Raises FloatingPointError if the policy's logits are not finite."""
        block = jax.device_get(running)
        if not np.isfinite(block.logprobs).all():
            raise FloatingPointError("the policy's logprobs are not finite: its parameters are broken")
        self.counters.blocks += 1
        self.counters.steps += int(block.steps)
        self.counters.decoded += int(block.steps) * block.tokens.shape[1]
        return block

    def _decode(self, decoder: Decoder, params: Params, *start: Any) -> tuple[Cache, DecodedBlock]:
        """start: the cache, prompts, rows and controls."""
        return decoder(params, *start)


def _completed(finished: Finished) -> tuple[int, tuple[Completion, ...]]:
    request, samples = finished
    return request, tuple(sample.completion() for sample in samples)
