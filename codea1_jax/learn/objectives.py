"""What an update minimises: the GRPO objective, or the cross-entropy of weighted tokens.

An objective defines how groups are cut into mini-batches, what is computed of them, the loss of a packed micro-batch,
and the metrics. `learner.Learner` does the rest, which is the same for both. Both also say

    kl             whether log-probabilities under a reference are needed
    own_reference  whether the reference is the policy's own at its start, and not one that all share
    compares       whether old log-probabilities are needed
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from codea1_jax.config import GRPOConfig
from codea1_jax.learn.batch import Example, PackedBatch, Trajectory, trajectory_example
from codea1_jax.learn.losses import TokenSums, grpo_objective, masked_sum, token_means

Item = Trajectory | Example
Groups = Sequence[Sequence[Item]]  # what is learned from, question by question
Sums = Any  # a pytree of scalars, which an objective accumulates over micro-batches


@dataclass(frozen=True)
class GRPO:
    """A policy loss with a KL penalty, as a token mean over each mini-batch (`losses.grpo_objective`).

    Groups hold trajectories. response_tokens: as many tokens as each counts for a constant normalizer.
    """

    config: GRPOConfig
    response_tokens: int = 1
    own_reference: bool = False
    compares: ClassVar[bool] = True

    @property
    def kl(self) -> bool:
        return self.config.kl_coef > 0

    @property
    def traced(self) -> "GRPO":
        """The same to whoever compiles: objectives that differ in what the host computes alone are equal."""
        config = self.config.model_copy(update={"mini_batch_questions": 1, "skip_zero_advantage": False})
        return GRPO(config, own_reference=self.own_reference)

    def mini_batches(self, groups: Groups) -> list[Groups]:
        """Those of each optimizer update: `mini_batch_questions` questions, in the last perhaps fewer.

        Raises ValueError if there is nothing to learn from.
        """
        if not groups:
            raise ValueError("an update needs the trajectories of at least one question")
        size = self.config.mini_batch_questions
        return [groups[start : start + size] for start in range(0, len(groups), size)]

    def computed(self, groups: Groups) -> Groups:
        """All that count in the token mean; with skip_zero_advantage only those with an advantage."""
        skip = self.config.skip_zero_advantage
        return [
            [t for t in _trajectories(group) if self._counts(t) and (t.advantage != 0 or not skip)] for group in groups
        ]

    def _counts(self, trajectory: Trajectory) -> bool:
        """Whether the token mean is over it too: all, or all that were not cut off (DAPO, arXiv 2503.14476, 3.4)."""
        return not (trajectory.truncated and self.config.mask_truncated)

    def teaches(self, groups: Groups) -> bool:
        """Whether the loss of a mini-batch has a gradient. Without one AdamW's momentum alone would move the policy."""
        always = self.kl or self.config.entropy_coef != 0
        return any(always or t.advantage != 0 for t in _trajectories(chain.from_iterable(self.computed(groups))))

    def normalizer(self, groups: Groups) -> float:
        """The response tokens of the mini-batch, at least 1; a constant one gives every response the same number.

        So a token's weight depends on no response's length (Dr. GRPO, arXiv 2503.20783, section 3.2).
        """
        counted = filter(self._counts, _trajectories(chain.from_iterable(groups)))
        constant = self.config.normalizer == "constant"
        return float(max(sum(self.response_tokens if constant else len(t.completion) for t in counted), 1))

    def zero(self) -> TokenSums:
        return TokenSums.zero(self.config)

    def merged(self, sums: TokenSums, more: TokenSums) -> TokenSums:
        return sums.merged(more)

    def loss(
        self, logprobs: Array, entropy: Array, batch: PackedBatch, normalizer: Float[Array, ""]
    ) -> tuple[Float[Array, ""], TokenSums]:
        sums = grpo_objective(
            logprobs,
            entropy,
            old_logprobs=batch.old_logprobs,
            reference_logprobs=batch.reference_logprobs,
            rollout_logprobs=batch.rollout_logprobs,
            advantages=batch.weights,
            mask=batch.mask,
            sequences=batch.sequences,
            config=self.config,
        )
        return sums.loss / normalizer, sums

    def metrics(self, sums: Sequence[TokenSums], norms: Sequence[np.ndarray], groups: Groups) -> dict[str, float]:
        """Means over the tokens that were computed, and figures of the groups."""
        trajectories = list(_trajectories(chain.from_iterable(groups)))
        return {
            "grad_norm": float(np.mean(norms)),
            "response_tokens": _mean([len(t.completion) for t in trajectories]),
            "truncated": _mean([t.truncated for t in trajectories]),
            "zero_variance": float(np.mean([all(t.advantage == 0 for t in _trajectories(group)) for group in groups])),
            **token_means(reduce(TokenSums.merged, sums)),
        }

    def scoring_flops(self, forward: Sequence[float]) -> float:
        """FLOPs of all log-probabilities besides the gradient's, from those of one forward pass over each group.

        The old policy's after the first mini-batch, until which the policy is the old one; and the reference's.
        """
        return float(sum(forward[self.config.mini_batch_questions :]) + (sum(forward) if self.kl else 0))


@dataclass(frozen=True)
class CrossEntropy:
    """The mean of the tokens' cross-entropies, weighted: by an example's weights, or a trajectory's advantage.

    Supervised learning: a warm start, or the sft baseline. All groups are one mini-batch; there are no ratios.
    """

    kl: ClassVar[bool] = False
    own_reference: ClassVar[bool] = False
    compares: ClassVar[bool] = False

    @property
    def traced(self) -> "CrossEntropy":
        return self

    def mini_batches(self, groups: Groups) -> list[Groups]:
        """One. Raises ValueError if no token has a weight."""
        if self.normalizer(groups) <= 0:
            raise ValueError("supervised learning needs at least one token of positive weight")
        return [groups]

    def computed(self, groups: Groups) -> Groups:
        return groups

    def teaches(self, groups: Groups) -> bool:
        return True

    def normalizer(self, groups: Groups) -> float:
        return float(sum(sum(as_example(item).weights) for item in chain.from_iterable(groups)))

    def zero(self) -> Float[Array, ""]:
        return jnp.zeros(())

    def merged(self, sums: Array, more: Array) -> Array:
        return jnp.add(sums, more)

    def loss(
        self, logprobs: Array, entropy: Array, batch: PackedBatch, normalizer: Float[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        loss = masked_sum(-batch.weights * logprobs, batch.mask) / normalizer
        return loss, loss

    def metrics(self, sums: Sequence[np.ndarray], norms: Sequence[np.ndarray], groups: Groups) -> dict[str, float]:
        return {"loss": float(sums[0]), "grad_norm": float(norms[0])}

    def scoring_flops(self, forward: Sequence[float]) -> float:
        return 0.0


Objective = GRPO | CrossEntropy


def as_example(item: Item) -> Example:
    return item if isinstance(item, Example) else trajectory_example(item)


def _trajectories(items: Any) -> Any:
    for item in items:
        assert isinstance(item, Trajectory)
        yield item


def _mean(values: Sequence[int]) -> float:
    """The mean, or 0 of nothing: a step in which no program could be shown has no suites to learn from."""
    return float(np.mean(values)) if values else 0.0
