"""How the policies of a method learn: a learner for each, and what they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jax.sharding import Mesh

from codea1_jax.config import Config, LearnerConfig, LoRAConfig, Method, OffloadConfig
from codea1_jax.learn.learner import Learner
from codea1_jax.learn.objectives import GRPO, CrossEntropy
from codea1_jax.models.decoder import Transformer

NEVER = 2**31 - 1  # more steps than any run has


@dataclass(frozen=True)
class Learning:
    """How each policy of a method learns: the sections of its policies, by name, and what they share.

    response_tokens: of the longest response that each policy may draw.
    """

    method: Method
    sections: Mapping[str, LearnerConfig]
    lora: Mapping[str, LoRAConfig | None]
    offload: OffloadConfig
    temperature: Mapping[str, float]
    response_tokens: Mapping[str, int]
    seed: int

    @classmethod
    def of(cls, config: Config, method: Method) -> Learning:
        """From a configuration. A policy of another model, or that starts elsewhere, keeps its own reference."""
        own = {name: config.learners[name] for name in method.policies}
        if config.lora is None:
            own = {name: _near_its_start(learner) for name, learner in own.items()}
        lora = {name: config.lora_of(name) for name in own}
        temperature = {name: config.drawn_at(name)[0] for name in own}
        lengths = {"code": config.rollout.code_tokens, "test": config.rollout.test_tokens}
        longest = {name: max(lengths[role] for role, player in method.roles.items() if player == name) for name in own}
        return cls(method, own, lora, config.offload, temperature, longest, config.run.seed)

    @property
    def has_adapters(self) -> bool:
        """Whether adapters are trained, of every policy, in place of all parameters."""
        return None not in self.lora.values()

    @property
    def shares_reference(self) -> bool:
        """Whether the policy at step 0 is kept, because a policy in training has to stay near it.

        Under LoRA it is each policy's base itself.
        """
        if self.has_adapters:
            return False
        near = (each.grpo.kl_coef > 0 and not each.grpo.reference_every for each in self.sections.values())
        return not self.method.supervised and any(near)

    def keeps_initial_weights(self, name: str) -> bool:
        """Whether the weights of this policy's model at step 0 stay in memory: as LoRA's base, or as the reference."""
        return self.has_adapters or (self.shares_reference and self.sections[name].model is None)

    def learners(self, models: Mapping[str, Transformer], total_steps: int, mesh: Mesh) -> dict[str, Learner]:
        """Every policy's learner, by its name, over the devices of a mesh, which may be of a TPU that is not here."""
        return {
            name: Learner(
                models[name],
                CrossEntropy() if self.method.supervised else GRPO(section.grpo, self.response_tokens[name]),
                section.optimizer,
                section.packing,
                total_steps=total_steps,
                temperature=1.0 if self.method.supervised else self.temperature[name],
                mesh=mesh,
                offload=self.offload,
                lora=self.lora[name],
                seed=len(self.sections) * self.seed + number,  # every policy's adapters are drawn from their own seed
            )
            for number, (name, section) in enumerate(self.sections.items())
        }


def _near_its_start(learner: LearnerConfig) -> LearnerConfig:
    at_common_start = learner.start is None and learner.model is None
    if at_common_start or not learner.grpo.kl_coef or learner.grpo.reference_every:
        return learner
    return learner.model_copy(update={"grpo": learner.grpo.model_copy(update={"reference_every": NEVER})})
