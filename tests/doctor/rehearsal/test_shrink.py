"""A rehearsal is smaller than the run in what it says, and like it in all else."""

import dataclasses
import re

import pytest
from jax.sharding import AbstractMesh

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import ArchitectureConfig, Config, load, preset_names
from codea1_jax.config.presets import by_key
from codea1_jax.doctor.rehearsal.shrink import shrink, shrunk_shape
from codea1_jax.models.families import from_scratch
from codea1_jax.models.sharding import check_divisible
from codea1_jax.plan.planned_run import model_shape
from codea1_jax.runtime.layout import MESH_AXES

# Every model and method on one kind of hardware, and the paper's own method on every kind.
LAID_OUT = [name for name in preset_names() if re.fullmatch(r"\d.*/(\w+_v5e|a1_(v5p|v6e|tpu7x|h100|h200))", name)]
SMALLER = (
    *("rollout.code_prompt_tokens", "rollout.test_prompt_tokens", "rollout.code_tokens", "rollout.test_tokens"),
    *("rollout.rows", "rollout.cache_tokens", "rollout.block", "rollout.prefill_tokens"),
    *(f"{name}.packing.{key}" for name in ("code", "test") for key in ("row_length", "micro_batch_tokens")),
    *(f"{name}.packing.logit_chunk" for name in ("code", "test")),
    *(f"{name}.grpo.mini_batch_questions" for name in ("code", "test")),
    *("train.steps", "train.questions", "eval.every", "eval.samples", "eval.suites", "checkpoint.every"),
)


@pytest.mark.parametrize("name", LAID_OUT)
def test_a_preset_for_hardware_is_made_smaller_and_not_otherwise_changed(name):
    real = load(Config, name)
    assert real.hardware is not None
    mesh = real.mesh.shape(find_hardware(real.hardware).devices)
    rehearsed = load(Config, name, shrink(real, mesh[0] * mesh[1]))
    before, after = (by_key(config.model_dump(mode="json")) for config in (real, rehearsed))
    changed = {key for key, value in after.items() if value != before.get(key)}
    assert changed <= set(SMALLER)
    assert {"rollout.code_tokens", "train.questions", "train.steps"} <= changed
    assert rehearsed.train.questions % rehearsed.code.grpo.mini_batch_questions == 0
    assert rehearsed.rollout.rows % (mesh[0] * mesh[1]) == 0


def test_the_shrunk_model_has_the_heads_and_the_vocabulary_and_lies_on_the_same_mesh():
    for name in ("1.5b/a1_v5e", "3b/a1_v6e", "7b/a1_v5p", "1.5b/a1_tpu7x", "7b/a1_h100"):
        config = load(Config, name)
        assert config.hardware is not None
        mesh, shape = config.mesh.shape(find_hardware(config.hardware).devices), model_shape(config.model)
        small = shrunk_shape(shape, mesh)
        check_divisible(small, AbstractMesh(mesh, MESH_AXES))
        sizes = ("hidden_size", "intermediate_size", "num_layers", "head_dim")
        assert dataclasses.replace(small, **{size: getattr(shape, size) for size in sizes}) == shape
        assert all(getattr(small, size) < getattr(shape, size) for size in sizes)


def test_a_shrunk_model_keeps_layers_with_and_without_rope():
    smollm3 = from_scratch(ArchitectureConfig(family="smollm3", num_layers=36), 97)
    small = shrunk_shape(smollm3, (1, 1, 1))
    assert (small.num_layers, small.layers_without_rope) == (2, (1,))


def test_mini_batches_stay_several():
    several = load(Config, "1.5b/a1")
    assert several.code.grpo.mini_batch_questions < several.train.questions
    assert "code.grpo.mini_batch_questions=1" in shrink(several, 4)
    one = load(Config, "1.5b/a1", ["code.grpo.mini_batch_questions=256"])
    assert "code.grpo.mini_batch_questions=2" in shrink(one, 4)


def test_what_is_small_already_stays():
    config = load(Config, "micro/a1", ["rollout.code_tokens=8"])
    assert not any(override.startswith("rollout.code_tokens=") for override in shrink(config, 1))
