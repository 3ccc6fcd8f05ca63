from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from codea1_jax.common.chips import Hardware
from codea1_jax.config import METHODS, Config, ModelConfig
from codea1_jax.learn.packing import Shape, micro_batch_shapes
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.attention import choose_kernel
from codea1_jax.models.attention.flash import Kernels, kernels_for
from codea1_jax.models.families import from_scratch
from codea1_jax.models.flops import adapter_parameters, cache_bytes, parameters
from codea1_jax.models.published import HUB_SHAPES
from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.models.weights import read_config, resolve
from codea1_jax.plan.workload import Load, Phase, sampling_loads, training_loads
from codea1_jax.rollout.capacity import Capacity, capacity_of
from codea1_jax.rollout.readers import reader_for
from data_pipeline import micro


@dataclass(frozen=True)
class PlannedRun:
    """A configuration, the shapes of its models, and how the mesh splits them.

    policy: whose model the properties describe. shapes: of every policy's model, by the policy's name. platform: as JAX
    names it ("cpu", "gpu", "tpu"). batch_shards: of a batch. shards: of the master parameters. tensor: of the copy that
    is sampled from.
    """

    config: Config
    policy: str
    shapes: Mapping[str, Architecture]
    platform: str
    batch_shards: int
    shards: int
    tensor: int

    def for_policy(self, policy: str) -> "PlannedRun":
        return replace(self, policy=policy)

    def for_phase(self, phase: Phase) -> "PlannedRun":
        roles: Mapping[Any, str] = METHODS[self.config.method.name].roles
        return self.for_policy(roles[phase.owner] if phase.is_sampling else phase.owner)

    @property
    def model(self) -> Architecture:
        return self.shapes[self.policy]

    @property
    def settings(self) -> ModelConfig:
        return self.config.models[self.policy]

    @property
    def replicas(self) -> int:
        return self.batch_shards * self.tensor // self.shards

    @property
    def itemsize(self) -> int:
        return 2 if self.settings.compute_dtype == "bfloat16" else 4

    @property
    def trained(self) -> int:
        lora = self.config.lora
        return parameters(self.model) if lora is None else adapter_parameters(self.model, lora)

    @property
    def master_bytes(self) -> float:
        """Bytes of what is trained of a policy, in float32, on a device."""
        return 4 * self.trained / self.shards

    @property
    def compute_param_bytes(self) -> float:
        """Bytes of a policy's parameters on a device, as computed with: split over `tensor` alone."""
        return self.itemsize * parameters(self.model) / self.tensor

    @property
    def token_bytes(self) -> float:
        """Bytes of a token's keys and values on a device that has it, as wide as its pages."""
        padded = replace(self.model, head_dim=reader_for(self.platform).width(self.model.head_dim))
        parts = self.tensor if self.model.num_kv_heads % self.tensor == 0 else 1  # that the heads are split into
        return cache_bytes(padded, self.itemsize) / parts

    @property
    def heads(self) -> float:
        """Heads whose queries one device computes: all of them where the tensor axis does not divide them."""
        heads = self.model.num_heads
        return heads / self.tensor if heads % self.tensor == 0 else heads

    @property
    def kernels(self) -> Kernels | None:
        """The flash kernels; None with plain XLA, whose programs say what they compute."""
        settings = self.settings
        dtype, head_dim = jnp.dtype(settings.compute_dtype), self.model.head_dim
        chosen = choose_kernel(settings.attention, dtype, head_dim, self.platform)
        return kernels_for(self.platform) if chosen == "flash" else None

    def cache(self, capacity: Capacity) -> float:
        return capacity.pages // self.batch_shards * capacity.block * self.token_bytes

    def capacity(self, load: Load) -> Capacity:
        most = load.prompts, load.samples, load.prompt, load.response
        return capacity_of(self.config.rollout, self.batch_shards, *most, replicas=self.replicas)

    def step_capacity(self, role: str) -> Capacity:
        return next(self.capacity(load) for load in sampling_loads(self.config) if load.role == role)

    def micro_batch(self, policy: str) -> Shape:
        """The rows and the length of a full one."""
        longest = max(load.length for load in training_loads(self.config)[policy])
        return micro_batch_shapes(self.config.learners[policy].packing, longest, self.batch_shards)[0]


def make_planned_run(config: Config, hardware: Hardware) -> PlannedRun:
    """Raises UserError if the mesh does not fit the hardware, or the model's shape is not available."""
    return planned_run_on(config, hardware.platform, hardware.devices)


def planned_run_on(config: Config, platform: str, devices: int) -> PlannedRun:
    """As `make_planned_run`, for devices of which only the platform and the number are known."""
    replica, fsdp, tensor = config.mesh.shape(devices)
    shapes = config.by_model(model_shape)
    return PlannedRun(config, next(iter(shapes)), shapes, platform, replica * fsdp, fsdp * tensor, tensor)


def model_shape(config: ModelConfig) -> Architecture:
    """The model's shape: stated, a local directory's, a published one, or the Hub's. Raises UserError."""
    if config.architecture is not None:
        words = micro.words(micro.FORMS[config.architecture.words])
        return from_scratch(config.architecture, micro_tokenizer(words).vocab_size)
    assert config.pretrained is not None  # the configuration has exactly one source
    if Path(config.pretrained).expanduser().is_dir():
        return read_config(Path(config.pretrained).expanduser())
    return HUB_SHAPES.get(config.pretrained) or _hub_shape(config.pretrained)


@cache  # a search asks again and again
def _hub_shape(name: str) -> Architecture:
    return read_config(resolve(name, ["config.json"]))
