"""Every key of a run, section by section, and the presets that set them. Imports pydantic and yaml only."""

from codea1_jax.config.data import DataConfig
from codea1_jax.config.devices import HostsConfig, MeshConfig, OffloadConfig
from codea1_jax.config.learner import (
    GRPOConfig,
    Importance,
    LearnerConfig,
    OptimizerConfig,
    PackingConfig,
    WarmStartConfig,
)
from codea1_jax.config.method import METHODS, Method, MethodConfig, Role
from codea1_jax.config.model import ArchitectureConfig, LoRAConfig, ModelConfig
from codea1_jax.config.presets import dump, load, preset_names
from codea1_jax.config.prompts import PromptsConfig, Template, Templates, read_templates
from codea1_jax.config.reward import Estimator, RewardConfig
from codea1_jax.config.rollout import RolloutConfig
from codea1_jax.config.run import CheckpointConfig, EvalConfig, TrainConfig
from codea1_jax.config.sandbox import SandboxConfig
from codea1_jax.config.schema import Config, Reading
from codea1_jax.config.section import Section

__all__ = [
    "METHODS",
    "ArchitectureConfig",
    "CheckpointConfig",
    "Config",
    "DataConfig",
    "Estimator",
    "EvalConfig",
    "GRPOConfig",
    "HostsConfig",
    "Importance",
    "LearnerConfig",
    "LoRAConfig",
    "MeshConfig",
    "Method",
    "MethodConfig",
    "ModelConfig",
    "OffloadConfig",
    "OptimizerConfig",
    "PackingConfig",
    "PromptsConfig",
    "Reading",
    "RewardConfig",
    "Role",
    "RolloutConfig",
    "SandboxConfig",
    "Section",
    "Template",
    "Templates",
    "TrainConfig",
    "WarmStartConfig",
    "dump",
    "load",
    "preset_names",
    "read_templates",
]
