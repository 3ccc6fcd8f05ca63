"""The GRPO update of one policy, as two jitted phases.

1. Log-probabilities of the responses under the policy before the step, and under the frozen reference.
2. For every mini-batch: the gradient, accumulated over packed micro-batches, then one AdamW update.

The loss is a token mean over the whole mini-batch: token losses are summed over micro-batches and divided by
the mini-batch's number of response tokens. So packing, padding and micro-batches do not change it.

Until the first optimizer update of a step the policy *is* the old policy. So the first mini-batch needs no
pass for the old log-probabilities: they equal the current ones exactly, and its ratios are 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float

from codea1_jax.learn.batch import PackedBatch, Trajectory, trajectory_example
from codea1_jax.learn.config import GRPOConfig, OptimizerConfig, PackingConfig
from codea1_jax.learn.losses import TokenSums, grpo_objective, token_means
from codea1_jax.learn.optimizer import (
    Params,
    PolicyState,
    apply_gradient,
    at_rest,
    frozen,
    initial_state,
    learning_rate,
    make_optimizer,
    state_shardings,
)
from codea1_jax.learn.packing import pack
from codea1_jax.learn.phases import Phases
from codea1_jax.learn.scores import Scores, slot_scores
from codea1_jax.models.lora import LoRAConfig, attach, init_adapters
from codea1_jax.models.qwen2 import Qwen2
from codea1_jax.models.sharding import batch_parts, batch_sharding, jit_on, one_device_mesh, put, replicated
from codea1_jax.run.offload import OffloadConfig, in_device_memory

Groups = Sequence[Sequence[Trajectory]]  # the trajectories of each question
Wait = Callable[[Any], object]  # returns when the arrays of a tree are there


class Accumulated(NamedTuple):
    """The gradient of a mini-batch and its token sums, over the micro-batches seen so far."""

    gradient: Params
    sums: TokenSums

    @classmethod
    def nothing(cls, params: Params, *, with_kl: bool) -> Accumulated:
        """Over no micro-batch."""
        return cls(jax.tree.map(jnp.zeros_like, params), TokenSums.zero(with_kl=with_kl))


def accumulate(
    accumulated: Accumulated,
    params: Params,
    batch: PackedBatch,
    tokens: Float[Array, ""],
    base: Params | None = None,
    *,
    scores: Scores,
    config: GRPOConfig,
    lora: LoRAConfig | None = None,
) -> Accumulated:
    """Adds one micro-batch; `tokens` is the number of response tokens of the whole mini-batch.

    `params` are what is trained; with `lora`, adapters on `base`.
    """

    def loss(params: Params) -> tuple[Array, TokenSums]:
        logprobs, entropy = scores(attach(lora, base, params), batch)
        sums = grpo_objective(
            logprobs,
            entropy,
            old_logprobs=batch.old_logprobs,
            reference_logprobs=batch.reference_logprobs,
            rollout_logprobs=batch.rollout_logprobs,
            advantages=batch.weights,
            mask=batch.mask,
            sequences=batch.sequences,
            config=config,
        )
        return sums.loss / tokens, sums

    gradient, sums = jax.grad(loss, has_aux=True)(params)
    return Accumulated(jax.tree.map(jnp.add, accumulated.gradient, gradient), accumulated.sums.merged(sums))


class Learner:
    """Updates one policy. Its jitted functions are compiled once per shape and shared by all its steps.

    `total_steps` is the length of the run, for the learning-rate schedule; `temperature` is the one that
    responses are sampled at. Everything lies on `mesh`, by default the first device alone; between updates what
    `offload` says waits in host memory. With `lora`, adapters are trained, which `seed` draws.
    """

    def __init__(
        self,
        model: Qwen2,
        grpo: GRPOConfig,
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
        self._lora = lora
        self._grpo, self._packing, self._offload = grpo, packing, offload or OffloadConfig()
        self._optimizer = make_optimizer(optimizer)
        self._mesh = mesh = one_device_mesh() if mesh is None else mesh
        self.state_shardings = state = state_shardings(model, lora, self._optimizer, mesh)
        own = state.params if grpo.reference_every else None
        scores = slot_scores(model, logit_chunk=packing.logit_chunk, temperature=temperature)
        nothing = partial(Accumulated.nothing, with_kl=grpo.kl_coef > 0)
        add = partial(accumulate, scores=scores, config=grpo, lora=lora)
        sums = Accumulated(state.params, cast(TokenSums, replicated(mesh)))  # one sharding for all its leaves

        def freeze(params: Params) -> Params:
            return frozen(params, model.dtype if lora is None else model.param_dtype)

        def init(params: Params) -> PolicyState:
            trained = params if lora is None else init_adapters(model, lora, jax.random.key(seed))
            first = initial_state(trained, self._optimizer)
            return replace(first, reference=freeze(trained)) if grpo.reference_every else first

        def logprobs(params: Params, batch: PackedBatch) -> Float[Array, "rows slots"]:
            return scores(params, batch)[0]

        def apply(state: PolicyState, gradient: Params) -> tuple[PolicyState, Float[Array, ""]]:
            rate = learning_rate(state.step, optimizer, total_steps)
            return apply_gradient(state, gradient, self._optimizer, rate)

        self.phases = Phases(
            init=jit_on(mesh, init, out_shardings=replace(state, reference=own)),
            nothing=jit_on(mesh, nothing, out_shardings=sums),
            accumulate=jit_on(mesh, add, out_shardings=sums, donate_argnums=(0,)),
            apply=jit_on(mesh, apply, out_shardings=(state, replicated(mesh)), donate_argnums=(0,)),
            logprobs=jit_on(mesh, logprobs, out_shardings=batch_sharding(mesh)),
            freeze=jit_on(mesh, freeze, out_shardings=state.params),
        )

    def init(self, params: Params) -> PolicyState:
        """The state before the first step. `params` stay the caller's: they are copied."""
        return at_rest(self.phases.init(params), self._offload)

    def abstract(self, params: Params) -> PolicyState:
        """Of placed shapes, those of the state that `init` makes."""
        return at_rest(self.phases.init.eval_shape(params), self._offload)

    def update(
        self, state: PolicyState, reference: Params | None, groups: Groups, wait: Wait = jax.block_until_ready
    ) -> tuple[PolicyState, dict[str, float]]:
        """One training step. `state` is donated: it must not be used again.

        `wait` gets what each micro-batch computes before the next one begins. If it raises before a mini-batch is
        complete, `state` is still whole.

        `reference` is needed unless kl_coef is 0 or the state has one of its own; with LoRA always, since it is the
        base. Means per token are over the tokens that were computed: with skip_zero_advantage those of responses
        with an advantage.

        Raises:
            ValueError: there is no reference and one is needed, or there are no groups.
            FloatingPointError: the loss or the gradient is not finite; the state is lost.
        """
        own, state = state.reference, replace(state, reference=None)
        if reference is None and (self._lora is not None or (self._grpo.kl_coef > 0 and own is None)):
            raise ValueError(f"kl_coef={self._grpo.kl_coef}, lora={self._lora}: reference parameters are needed")
        base = None if self._lora is None else reference
        if not groups:
            raise ValueError("an update needs the trajectories of at least one question")
        size = self._grpo.mini_batch_questions
        mini_batches = [groups[start : start + size] for start in range(0, len(groups), size)]
        packed = [self._pack(mini) for mini in mini_batches]
        policy = attach(self._lora, base, state.params)
        packed[1:] = [self._score(batches, policy, "old_logprobs", wait) for batches in packed[1:]]
        del policy  # whose arrays are donated
        if self._grpo.kl_coef > 0:
            packed = self._score_by_reference(packed, reference, own, wait)
        parts, norms = [], []
        for mini, batches in zip(mini_batches, packed, strict=True):
            gradient, sums = self._gradient(state.params, batches, self._response_tokens(mini), base, wait)
            state = replace(state, opt_state=in_device_memory(state.opt_state))
            state, norm = self.phases.apply(state, gradient)
            state = at_rest(state, self._offload)
            parts.append(sums)
            norms.append(norm)
        parts, norms = jax.device_get((parts, norms))
        state = replace(state, step=state.step + 1)
        if self._grpo.reference_every and state.step % self._grpo.reference_every == 0:
            own = self.phases.freeze(state.params)
        return at_rest(replace(state, reference=own), self._offload), _metrics(parts, norms, groups)

    def computed(self, groups: Groups) -> Groups:
        """Those trajectories of each group that an update computes."""
        skip = self._grpo.skip_zero_advantage
        return [[t for t in group if self._counts(t) and (t.advantage != 0 or not skip)] for group in groups]

    def _counts(self, trajectory: Trajectory) -> bool:
        """Whether the token mean is over it too: all, or all that were not cut off (DAPO, arXiv 2503.14476, 3.4)."""
        return not (trajectory.truncated and self._grpo.mask_truncated)

    def _response_tokens(self, groups: Groups) -> int:
        return max(sum(len(t.completion) for t in chain.from_iterable(groups) if self._counts(t)), 1)

    def _pack(self, groups: Groups) -> list[PackedBatch]:
        trajectories = list(chain.from_iterable(self.computed(groups)))
        batches = pack([trajectory_example(t) for t in trajectories], self._packing, batch_parts(self._mesh))
        return [put(batch, batch_sharding(self._mesh)) for batch in batches]

    def _score(
        self, batches: list[PackedBatch], params: Params, field: str, wait: Wait = jax.block_until_ready
    ) -> list[PackedBatch]:
        assert self.phases.logprobs is not None  # made above; supervised learning alone has none
        scored = []
        for batch in batches:
            logprobs = self.phases.logprobs(params, batch)
            wait(logprobs)
            scored.append(replace(batch, **{field: logprobs}))
        return scored

    def _score_by_reference(
        self, packed: list[list[PackedBatch]], shared: Params | None, own: Params | None, wait: Wait
    ) -> list[list[PackedBatch]]:
        """By the policy's own reference if it has one, else by the one that all share."""
        reference = in_device_memory(shared) if own is None else attach(self._lora, shared, in_device_memory(own))
        return [self._score(batches, reference, "reference_logprobs", wait) for batches in packed]

    def _gradient(
        self,
        params: Params,
        batches: list[PackedBatch],
        tokens: int,
        base: Params | None = None,
        wait: Wait = jax.block_until_ready,
    ) -> Accumulated:
        """The gradient of a mini-batch's token mean, and its sums; zeros if every response was skipped."""
        total = self.phases.nothing(params)
        for batch in batches:
            total = self.phases.accumulate(total, params, batch, np.float32(tokens), base)
            wait(total.sums)  # whose buffers the next call takes
        return total


def _metrics(parts: Sequence[TokenSums], norms: Sequence[np.ndarray], groups: Groups) -> dict[str, float]:
    trajectories = list(chain.from_iterable(groups))
    metrics = {
        "grad_norm": float(np.mean(norms)),
        "response_tokens": _mean([len(t.completion) for t in trajectories]),
        "truncated": _mean([t.truncated for t in trajectories]),
        "zero_variance": float(np.mean([all(t.advantage == 0 for t in group) for group in groups])),
    }
    metrics |= token_means(reduce(TokenSums.merged, parts))
    if not all(np.isfinite(value) for value in metrics.values()):
        raise FloatingPointError(f"the update is not finite: {metrics}")
    return metrics


def _mean(values: Sequence[int]) -> float:
    """The mean, or 0 of nothing: a step in which no program could be shown has no suites to learn from."""
    return float(np.mean(values)) if values else 0.0
