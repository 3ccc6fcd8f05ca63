from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from jax.sharding import Mesh

from codea1_jax.config import METHODS, Config, LearnerConfig, Method
from codea1_jax.learn.learner import Learner
from codea1_jax.learn.objectives import GRPO, CrossEntropy
from codea1_jax.learn.optimizer import Params, PolicyState
from codea1_jax.learn.packing import micro_batch_shapes
from codea1_jax.models.decoder import Transformer, flatten
from codea1_jax.models.lora import with_adapters
from codea1_jax.models.sharding import abstract_sharded


class Shapes(NamedTuple):
    """Of a policy's state, of the reference or LoRA's base that policies of its model share, and of what is sampled."""

    state: PolicyState
    shared: Params | None
    sampled: Params


@dataclass(frozen=True)
class Learning:
    config: Config

    @property
    def method(self) -> Method:
        return METHODS[self.config.method.name]

    @property
    def sections(self) -> dict[str, LearnerConfig]:
        return {name: self.config.learners[name] for name in self.method.policies}

    def response_tokens(self, name: str) -> int:
        lengths = {"code": self.config.rollout.code_tokens, "test": self.config.rollout.test_tokens}
        return max(lengths[role] for role, policy in self.method.roles.items() if policy == name)

    def has_own_reference(self, name: str) -> bool:
        """Whether a policy stays near its own start, because it is another model, or starts elsewhere, than the others.

        Under LoRA the reference is each policy's base itself.
        """
        section = self.sections[name]
        stays_near = section.grpo.kl_coef > 0 and not self.method.supervised and self.config.lora is None
        return stays_near and (section.start is not None or section.model is not None)

    @property
    def shares_reference(self) -> bool:
        """Whether the policy at step 0 is kept, because a policy in training has to stay near it."""
        if self.config.lora is not None or self.method.supervised:
            return False
        return any(each.grpo.kl_coef > 0 and not self.has_own_reference(name) for name, each in self.sections.items())

    def keeps_initial_weights(self, name: str) -> bool:
        """Whether the weights of this policy's model at step 0 stay in memory: as LoRA's base, or as the reference."""
        return self.config.lora is not None or (self.shares_reference and self.sections[name].model is None)

    def abstract(
        self, learners: Mapping[str, Learner], models: Mapping[str, Transformer], mesh: Mesh
    ) -> dict[str, Shapes]:
        """What is held of every policy while a run trains, by its name."""
        shapes: dict[str, Shapes] = {}
        for name, learner in learners.items():
            model, state = models[name], learner.abstract(abstract_sharded(models[name], mesh))
            own = self.config.models[name]
            same = (each.shared for other, each in shapes.items() if self.config.models[other] == own)
            shared = next((each for each in same if each is not None), None)
            if shared is None and self.keeps_initial_weights(name):
                shared = abstract_sharded(model.clone(param_dtype=model.dtype), mesh)
            sampled = state.params if self.config.lora is None else with_adapters(shared, flatten(state.params))
            shapes[name] = Shapes(state, shared, sampled)
        return shapes

    def learners(
        self, models: Mapping[str, Transformer], total_steps: int, mesh: Mesh, longest: Mapping[str, int]
    ) -> dict[str, Learner]:
        """Every policy's learner, by its name, over the devices of a mesh, which may be of a TPU that is not here.

        longest: places of the longest example that each can meet.
        """
        config, sections = self.config, self.sections
        return {
            name: Learner(
                models[name],
                CrossEntropy()
                if self.method.supervised
                else GRPO(section.grpo, self.response_tokens(name), self.has_own_reference(name)),
                section.optimizer,
                section.packing.model_copy(
                    update={"row_length": micro_batch_shapes(section.packing, longest[name])[0][1]}
                ),
                total_steps=total_steps,
                temperature=1.0 if self.method.supervised else config.sampling_of(name)[0],
                mesh=mesh,
                offload=config.offload,
                lora=config.lora,
                seed=len(sections) * config.run.seed + number,  # every policy's adapters are drawn from their own seed
            )
            for number, (name, section) in enumerate(sections.items())
        }
