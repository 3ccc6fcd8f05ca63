"""One policy's updates, as jitted phases over packed rows: log-probabilities under the old policy and the reference,
then for every mini-batch the gradient, accumulated over micro-batches, and one AdamW update if there is a gradient.

Token losses are summed and divided by the mini-batch's normalizer, so neither packing nor micro-batches change the
loss. Until a step's first update the policy *is* the old one: the first mini-batch's ratios are 1, without a pass.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array

from codea1_jax.config import LoRAConfig, OffloadConfig, OptimizerConfig, PackingConfig
from codea1_jax.learn.batch import BatchWriter, Example, PackedBatch
from codea1_jax.learn.losses import masked_sum
from codea1_jax.learn.objectives import Groups, Objective, as_example
from codea1_jax.learn.optimizer import Params, PolicyState, at_rest, learning_rate
from codea1_jax.learn.packing import Shape, micro_batch_shapes, pack, padding
from codea1_jax.learn.phases import Accumulated, TargetScores, make_phases
from codea1_jax.models.ahead import CompileAhead, Program, shapes_of
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Transformer, flatten
from codea1_jax.models.flops import causal, layers_flops, vocabulary_flops
from codea1_jax.models.lora import attach, with_adapters
from codea1_jax.models.sharding import batch_sharding, batch_shards, jit_on, one_device_mesh, put, replicated
from codea1_jax.runtime.layout import in_device_memory

Wait = Callable[[Any], object]  # returns when the arrays of a tree are there


class Learner:
    """Updates one policy. Its jitted functions are compiled once per shape and shared by all its steps.

    `total_steps` is the length of the run, for the learning-rate schedule; `temperature` is the one that
    responses are sampled at. Everything lies on `mesh`, by default the first device alone; between updates what
    `offload` names waits in host memory. With `lora`, adapters are trained, which `seed` draws.
    """

    def __init__(
        self,
        model: Transformer,
        objective: Objective,
        optimizer: OptimizerConfig,
        packing: PackingConfig,
        *,
        total_steps: int,
        temperature: float = 1.0,
        mesh: Mesh | None = None,
        offload: OffloadConfig | None = None,
        lora: LoRAConfig | None = None,
        seed: int = 0,
    ) -> None:
        self.objective = objective
        self._model, self._lora, self._seed = model, lora, np.uint32(seed)
        self._ahead, self._prepared = CompileAhead(), set[Shape]()
        self._packing, self._offload = packing, offload or OffloadConfig()
        self._mesh = mesh = one_device_mesh() if mesh is None else mesh
        self._learning_rate = partial(learning_rate, config=optimizer, total_steps=total_steps)
        self._masked_sum = jit_on(mesh, masked_sum, out_shardings=replicated(mesh))
        alike = OptimizerConfig(clip_norm=optimizer.clip_norm, weight_decay=optimizer.weight_decay)
        scores = TargetScores(model, packing.logit_chunk, temperature)
        self.phases = make_phases(model, objective.traced, scores, mesh, lora, alike)  # pyright: ignore[reportArgumentType]

    def init(self, params: Params) -> PolicyState:
        """The state before the first step. `params` stay the caller's: they are copied."""
        return at_rest(self.phases.init(params, self._seed), self._offload)

    def abstract(self, params: Params) -> PolicyState:
        return at_rest(self.phases.init.eval_shape(params, self._seed), self._offload)

    def update(
        self,
        state: PolicyState,
        reference: Params | None,
        groups: Groups,
        wait: Wait = jax.block_until_ready,
        *,
        base: Params | None = None,
        show: Callable[[int, int], object] = lambda done, total: None,
    ) -> tuple[PolicyState, dict[str, float]]:
        """One training step. `state` is donated: it must not be used again.

        `wait` gets what each micro-batch computes before the next one begins. If it raises before a mini-batch is
        complete, `state` is still whole. `show` gets how many passes over micro-batches are done, and of how many.
        `base` is what LoRA's adapters are added to. `reference` is needed if the objective has a KL term, unless the
        state has a reference of its own; with LoRA the base is the reference.

        Raises ValueError if a reference or a base is needed and missing, or nothing can be learned from the groups;
        FloatingPointError, and the state is lost, if the loss or the gradient is not finite.
        """
        own_reference, state = state.reference, replace(state, reference=None)
        shared = self._shared(reference, base, own_reference)
        mini_batches = self.objective.mini_batches(groups)
        rows = [self._pack(mini) for mini in mini_batches]
        learned, after_first = sum(map(len, rows)), sum(map(len, rows[1:]))
        scored = self.objective.compares * after_first + bool(self.objective.kl) * learned
        wait = _counted(wait, scored + learned, show)
        packed = [self._put(batches) for batches in rows]
        shapes = {batch.tokens.shape for batch in chain.from_iterable(rows)}
        if not shapes <= self._prepared:
            self.compile(replace(state, reference=own_reference), shared, shapes, updates=len(rows))
        self._ahead.wait()
        if self.objective.compares:
            policy = attach(self._lora, base, state.params)
            packed[1:] = [self._score(batches, policy, "old_logprobs", wait) for batches in packed[1:]]
            del policy  # whose arrays are donated
        if self.objective.kl:
            frozen = shared if own_reference is None else own_reference
            packed = [self._score(batches, frozen, "reference_logprobs", wait) for batches in packed]
        rate = self._learning_rate(int(state.step))
        computed = []
        for mini, batches in zip(mini_batches, packed, strict=True):
            gradient, sums = self._gradient(state.params, batches, self.objective.normalizer(mini), base, wait)
            teaches = self.objective.teaches(mini)
            state, norm = self._apply(state, gradient, rate) if teaches else (state, np.float32(0))
            computed.append((sums, norm))
        state = replace(state, step=state.step + 1)
        all_sums, norms = zip(*jax.device_get(computed), strict=True)
        metrics = self.objective.metrics(all_sums, norms, groups)
        metrics |= {"learning_rate": rate, "padding": padding(list(chain.from_iterable(rows)))}
        if not all(np.isfinite(value) for value in metrics.values()):
            raise FloatingPointError(f"the update is not finite: {metrics}")
        return at_rest(replace(state, reference=own_reference), self._offload), metrics

    def _shared(self, reference: Params | None, base: Params | None, own: Params | None) -> Params | None:
        """The reference that all policies share, under LoRA their base. Raises ValueError where one is needed."""
        if self._lora is not None and base is None:
            raise ValueError(f"lora={self._lora}: base parameters are needed")
        shared = reference if self._lora is None else base
        if self.objective.kl and shared is None and own is None:
            raise ValueError(f"{self.objective}: reference parameters are needed")
        return shared

    def _apply(self, state: PolicyState, gradient: Params, rate: float) -> tuple[PolicyState, Array]:
        state = replace(state, opt_state=in_device_memory(state.opt_state))
        state, norm = self.phases.apply(state, gradient, np.float32(rate))
        return at_rest(state, self._offload), norm

    @property
    def shapes(self) -> tuple[Shape, Shape]:
        """Of micro-batches, the full one first, unless an example is longer than a row."""
        return micro_batch_shapes(self._packing, 0, batch_shards(self._mesh))

    def compile(
        self, state: PolicyState, shared: Params | None, shapes: Collection[Shape], *, updates: int
    ) -> list[Program]:
        """Begins to compile what updates with micro-batches of these shapes need; arguments as of `programs`."""
        self._prepared |= set(shapes)
        state, shared = shapes_of((state, shared))
        return self._ahead.start(self.programs(state, shared, shapes, updates=updates))

    def programs(
        self, state: PolicyState, shared: Params | None, shapes: Collection[Shape], *, updates: int
    ) -> Iterator[Program]:
        """Those of steps of this many optimizer updates, from the shapes of a state.

        shared: of the reference that all policies share, under LoRA of their base.
        """
        phases, own, state = self.phases, state.reference, replace(state, reference=None)
        base = None if self._lora is None else shared
        total, number = phases.empty.eval_shape(state.params), jax.ShapeDtypeStruct((), np.float32)
        policy = state.params if self._lora is None else with_adapters(shared, flatten(state.params))
        here = batch_sharding(self._mesh)
        for shape in shapes:
            empty = BatchWriter(*shape).batch
            batch = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here), empty)
            if self.objective.compares and updates > 1:
                yield Program("score-old", shape, phases.logprobs, (), (policy, batch))
            if self.objective.kl:
                yield Program("score-ref", shape, phases.logprobs, (), (shared if own is None else own, batch))
                batch = replace(batch, reference_logprobs=batch.mask)
            yield Program("gradient", shape, phases.accumulate, (), (total, state.params, batch, number, base))
        yield Program("clear", (), phases.empty, (), (state.params,))
        on_device = replace(state, opt_state=in_device_memory(state.opt_state))
        yield Program("update", (), phases.apply, (), (on_device, total.gradient, number))

    def mean_logprob(self, params: Params, groups: Groups) -> float:
        batches = self._put(self._pack(groups))
        total = sum(float(self._masked_sum(self.phases.logprobs(params, b), b.mask)) for b in batches)
        return total / self.tokens(groups)

    def flops(self, groups: Groups) -> float:
        """FLOPs that a perfect implementation of `update` needs; those of the adapters themselves are left out."""
        computed = self.objective.computed(groups)
        forward = [forward_flops(self._model.architecture, list(map(as_example, group))) for group in computed]
        # A backward pass costs two more products for each matrix, or one if it is frozen.
        passes = 3 if self._lora is None else 2
        return float(passes * sum(forward)) + self.objective.scoring_flops(forward)

    def tokens(self, groups: Groups) -> int:
        return sum(len(as_example(item).learned) for item in chain.from_iterable(self.objective.computed(groups)))

    def _pack(self, groups: Groups) -> list[PackedBatch]:
        examples = [as_example(item) for item in chain.from_iterable(self.objective.computed(groups))]
        return pack(examples, self._packing, batch_shards(self._mesh))

    def _put(self, batches: list[PackedBatch]) -> list[PackedBatch]:
        return [put(batch, batch_sharding(self._mesh)) for batch in batches]

    def _score(
        self, batches: list[PackedBatch], params: Params, field: str, wait: Wait = jax.block_until_ready
    ) -> list[PackedBatch]:
        scored = []
        for batch in batches:
            logprobs = self.phases.logprobs(params, batch)
            wait(logprobs)
            scored.append(replace(batch, **{field: logprobs}))
        return scored

    def _gradient(
        self,
        params: Params,
        batches: list[PackedBatch],
        normalizer: float,
        base: Params | None = None,
        wait: Wait = jax.block_until_ready,
    ) -> Accumulated:
        total = self.phases.empty(params)
        for batch in batches:
            total = self.phases.accumulate(total, params, batch, np.float32(normalizer), base)
            wait(total.sums)  # whose buffers the next call takes
        return total


def _counted(wait: Wait, total: int, show: Callable[[int, int], object]) -> Wait:
    """As `wait`, which is called `total` times; `show` gets how often it was."""
    done = count(1)

    def wait_and_show(arrays: Any) -> None:
        wait(arrays)
        show(next(done), total)

    show(0, total)
    return wait_and_show


def forward_flops(model: Architecture, group: Sequence[Example]) -> float:
    """FLOPs of one pass over a group, each prompt once. The last token of a response is not an input."""
    prompts: dict[tuple[int, ...], list[Example]] = {}
    for example in group:
        prompts.setdefault(tuple(example.context), []).append(example)
    flops = 0.0
    for context, members in prompts.items():
        prompt = len(context)
        inputs = [len(example.learned) - 1 for example in members]
        seen = causal(prompt) + sum(length * prompt + causal(length) for length in inputs)
        flops += layers_flops(model, prompt + sum(inputs), seen)
        flops += vocabulary_flops(model, sum(inputs) + len(inputs))
    return flops
