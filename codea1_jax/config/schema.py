"""The whole configuration as one typed tree, and the checks that need more than one section."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from pydantic import Field, field_validator, model_validator

from codea1_jax.common.chips import find_hardware
from codea1_jax.config.data import DataConfig
from codea1_jax.config.devices import HostsConfig, MeshConfig, OffloadConfig
from codea1_jax.config.learner import LearnerConfig, WarmStartConfig
from codea1_jax.config.method import METHODS, MethodConfig
from codea1_jax.config.model import LoRAConfig, ModelConfig
from codea1_jax.config.prompts import PromptsConfig
from codea1_jax.config.reward import RewardConfig
from codea1_jax.config.rollout import RolloutConfig
from codea1_jax.config.run import CheckpointConfig, EvalConfig, RunConfig, TrainConfig
from codea1_jax.config.sandbox import SandboxConfig
from codea1_jax.config.section import Section

Reading = Literal["commonmark", "paper"]
T = TypeVar("T")


class Config(Section):
    """One training run."""

    run: RunConfig
    method: MethodConfig = MethodConfig()
    model: ModelConfig
    lora: LoRAConfig | None = Field(
        default=None, description="train adapters of every policy over one frozen base, instead of all parameters"
    )
    mesh: MeshConfig = MeshConfig()
    hosts: HostsConfig = HostsConfig()
    hardware: str | None = Field(
        default=None, description="the target hardware, as `codea1 plan --topology` names it: v5e:4x4, h100:8"
    )
    warm_start: WarmStartConfig | None = Field(default=None, description="for a model trained from scratch")
    warm_start_cache: str = Field(default=".cache/warm_start", description="finished warm starts, by content hash")
    data: DataConfig
    prompts: PromptsConfig = PromptsConfig()
    reading: Reading = Field(
        default="commonmark",
        description="how a program is read from a response: the last block, or the blocks together, that define what "
        "is asked; paper: the first ```python block, else the whole response, as in the original",
    )
    rollout: RolloutConfig = RolloutConfig()
    rewards: RewardConfig = RewardConfig()
    code: LearnerConfig = LearnerConfig()
    test: LearnerConfig = LearnerConfig()
    train: TrainConfig = TrainConfig()
    eval: EvalConfig = EvalConfig()
    sandbox: SandboxConfig = SandboxConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    offload: OffloadConfig = OffloadConfig()

    @property
    def learners(self) -> dict[str, LearnerConfig]:
        return {"code": self.code, "test": self.test}

    @property
    def models(self) -> dict[str, ModelConfig]:
        return {name: self.learners[name].model or self.model for name in METHODS[self.method.name].policies}

    def sampling_of(self, policy: str) -> tuple[float, float]:
        own = self.learners[policy]
        return own.temperature or self.rollout.temperature, own.top_p or self.rollout.top_p

    def by_model(self, make: Callable[[ModelConfig], T]) -> dict[str, T]:
        """What is made of every policy's model, by the policy's name; policies of one model share it."""
        made: dict[str, T] = {}
        for name, model in self.models.items():
            same = next((other for other in made if self.models[other] == model), None)
            made[name] = make(model) if same is None else made[same]
        return made

    @model_validator(mode="before")
    @classmethod
    def _own_models_differ_from_the_common_one(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or not isinstance(raw.get("model"), dict):
            return raw
        own = {name: raw[name] for name in ("code", "test") if isinstance(raw.get(name), dict)}
        return raw | {
            name: section | {"model": _merged(raw["model"], section["model"])}
            for name, section in own.items()
            if isinstance(section.get("model"), dict)
        }

    @field_validator("hardware")
    @classmethod
    def _known_hardware(cls, name: str | None) -> str | None:
        if name is not None:
            find_hardware(name)
        return name

    @model_validator(mode="after")
    def _fits_together(self) -> "Config":
        scratch = [model.architecture for model in self.models.values() if model.architecture is not None]
        if self.warm_start is not None and not scratch:
            raise ValueError("warm_start: a pretrained model needs none; remove it or set model.architecture")
        if self.prompts.style == "chat" and scratch:
            raise ValueError("prompts=chat needs the chat template of model.pretrained; use prompts=plain")
        task = self.data.task
        if self.data.source == "micro" and any(architecture.words != task for architecture in scratch):
            raise ValueError(f"data.task={task}: its words are missing; also set model.architecture.words={task}")
        for name, settings in self.learners.items():
            if self.lora is not None and settings.start is not None and settings.grpo.kl_coef:
                raise ValueError(f"{name}.start: lora keeps only the base as a reference; set {name}.grpo.kl_coef=0")
            if name in METHODS[self.method.name].policies:
                continue
            for key in ("start", "model", "temperature", "top_p"):
                if getattr(settings, key) is not None:
                    raise ValueError(
                        f"{name}.{key}: method.name={self.method.name} trains no policy of that name; leave it out"
                    )
        if self.train.refill and METHODS[self.method.name].supervised:
            raise ValueError(f"train.refill: method.name={self.method.name} plays no question; leave it out")
        return self


def _merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A policy's own section: an architecture differs from the common one, any other source of a model replaces it."""
    shape, shared = own.get("architecture"), common.get("architecture")
    if isinstance(shape, dict) and isinstance(shared, dict):
        return {**common, **own, "architecture": {**shared, **shape}}
    replaced = {"pretrained", "architecture"} if {"pretrained", "architecture"} & own.keys() else set()
    return {**{key: value for key, value in common.items() if key not in replaced}, **own}
