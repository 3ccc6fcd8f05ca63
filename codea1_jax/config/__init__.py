"""Every key of a run, one file per section, and the presets that set them. Imports pydantic and yaml only."""

from codea1_jax.config.checkpoint import CheckpointConfig
from codea1_jax.config.data import DataConfig
from codea1_jax.config.evaluation import EvalConfig
from codea1_jax.config.hosts import HostsConfig
from codea1_jax.config.learner import GRPOConfig, LearnerConfig, OptimizerConfig, PackingConfig
from codea1_jax.config.lora import LoRAConfig
from codea1_jax.config.mesh import MeshConfig
from codea1_jax.config.method import METHODS, Method, MethodConfig, Role
from codea1_jax.config.model import ArchitectureConfig, ModelConfig
from codea1_jax.config.offload import OffloadConfig
from codea1_jax.config.presets import dump, load, preset_names
from codea1_jax.config.prompts import PromptsConfig, Template, Templates, read_templates
from codea1_jax.config.rewards import RewardConfig
from codea1_jax.config.rollout import RolloutConfig
from codea1_jax.config.run import RunConfig
from codea1_jax.config.sandbox import SandboxConfig
from codea1_jax.config.schema import Config, Reading
from codea1_jax.config.section import Section
from codea1_jax.config.train import TrainConfig
from codea1_jax.config.warm_start import WarmStartConfig

__all__ = [
    "METHODS",
    "ArchitectureConfig",
    "CheckpointConfig",
    "Config",
    "DataConfig",
    "EvalConfig",
    "GRPOConfig",
    "HostsConfig",
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
    "RunConfig",
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
