"""From a configuration and some hardware to a run, without weights, tokenizer or device."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError

from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, ModelConfig
from codea1_jax.devices.chips import Hardware
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.families import from_scratch
from codea1_jax.models.published import HUB_SHAPES
from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.models.weights import read_config
from codea1_jax.plan.arithmetic.workload import PlannedRun
from data_pipeline import micro


def make_planned_run(config: Config, hardware: Hardware) -> PlannedRun:
    """Raises UserError if the mesh does not fit the hardware, or the model's shape is not available."""
    return planned_run_on(config, "tpu" if hardware.is_tpu else "gpu", hardware.devices)


def planned_run_on(config: Config, platform: str, devices: int) -> PlannedRun:
    """As `make_planned_run`, for devices of which only the platform ("cpu", "gpu", "tpu") and the number are known."""
    replica, fsdp, tensor = config.mesh.shape(devices)
    return PlannedRun(config, model_shape(config.model), platform, replica * fsdp, fsdp * tensor, tensor)


def model_shape(config: ModelConfig) -> Architecture:
    """The model's shape: stated, a local directory's, a published one, or the Hub's. Raises UserError."""
    if config.architecture is not None:
        return from_scratch(config.architecture, micro_tokenizer(micro.WORDS).vocab_size)
    assert config.pretrained is not None  # the configuration has exactly one source
    if Path(config.pretrained).expanduser().is_dir():
        return read_config(Path(config.pretrained).expanduser())
    if config.pretrained in HUB_SHAPES:
        return HUB_SHAPES[config.pretrained]
    try:
        return read_config(Path(hf_hub_download(config.pretrained, "config.json")).parent)
    except (OSError, HfHubHTTPError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"model.pretrained: no config.json of {config.pretrained}: {reason}") from error
