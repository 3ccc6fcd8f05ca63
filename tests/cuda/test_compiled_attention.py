"""Phases of the GPU presets at their real lengths, compiled by XLA for GPUs that are not here; nothing is run.

`make test-cuda` runs this folder, with XLA's CUDA compiler on the path.
"""

import re
from dataclasses import dataclass

import pytest

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, load
from codea1_jax.models.flops import layers_flops, vocabulary_flops
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.cuda import CARDS, absent_gpus
from codea1_jax.plan.plan import make_plan
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.programs import make_programs

CALL = re.compile(r'= (\(.*?\)|\S+) custom-call\(.*custom_call_target="(\S+?)", operand_layout_constraints=\{(.*?\})\}')
SHAPE = re.compile(r"\b\w+\[([\d,]*)\]")

# Attention under a mask that is not split with the batch, and its backward pass, which computes the mask's gradient.
MASKED = """
  %f.0 = (bf16[1,12,8192,128]{3,1,2,0}, u8[0]{0}) custom-call(%q, %k, %v, %mask), \
custom_call_target="__cudnn$fmhaScaleBiasSoftmax", operand_layout_constraints={bf16[1,8192,12,128]{3,2,1,0}, \
bf16[1,8192,2,128]{3,2,1,0}, bf16[1,8192,2,128]{3,2,1,0}, bf16[8,1,8192,8192]{3,2,1,0}}, api_version=STATUS_RETURNING
  %b.0 = (bf16[1,12,64,128]{3,1,2,0}, bf16[1,2,64,128]{3,1,2,0}, bf16[1,2,64,128]{3,1,2,0}, \
bf16[1,1,64,64]{3,2,1,0}, u8[0]{0}) custom-call(%q, %k, %v, %sums, %change, /*index=5*/%mask, %mixed), \
custom_call_target="__cudnn$fmhaScaleBiasSoftmaxBackward", operand_layout_constraints={bf16[1,64,12,128]{3,2,1,0}, \
bf16[1,64,2,128]{3,2,1,0}, bf16[1,64,2,128]{3,2,1,0}, f32[1,12,64]{2,1,0}, bf16[1,64,12,128]{3,2,1,0}, \
bf16[1,1,64,64]{3,2,1,0}, bf16[1,64,12,128]{3,2,1,0}}, api_version=STATUS_RETURNING
"""


@dataclass(frozen=True)
class Call:
    """A kernel that is not XLA's own, and the shapes that it takes and gives, each with the batch first."""

    target: str
    operands: list[tuple[int, ...]]
    results: list[tuple[int, ...]]


@dataclass(frozen=True)
class Compiled:
    """A program; rows of the longest sequences that it takes, and their length."""

    text: str
    rows: int
    length: int


def shapes(text):
    return [tuple(int(size) for size in sizes.split(",") if size) for sizes in SHAPE.findall(text)]


def attention_calls(text):
    found = [Call(target, shapes(operands), shapes(results)) for results, target, operands in CALL.findall(text)]
    return [call for call in found if call.target.startswith(("__cudnn$", "__gpu$xla.gpu.triton"))]


def of_another_batch(call):
    """Operands without the batch of the first one."""
    return [shape for shape in call.operands if shape[0] != call.operands[0][0]]


def rows_and_places(call):
    """Of queries, keys, values and their gradients: what has axes for heads too."""
    return {shape[:2] for shape in call.operands if len(shape) == 4}


def square(shapes, length):
    """Those that hold something for every pair of places."""
    return [shape for shape in shapes if shape.count(length) > 1]


def compiled(preset, phase, *overrides):
    config = load(Config, preset, overrides)
    hardware = find_hardware(config.hardware)
    run = make_planned_run(config, hardware)
    devices = absent_gpus(hardware)
    programs = {str(program.name): program for program in make_programs(run, make_mesh(config.mesh, devices))}
    text = programs[phase].lower().compile().as_text()
    rows, length = run.micro_batch("test")
    return Compiled(text, rows // run.batch_shards, config.rollout.test_prompt_tokens if "prefill" in phase else length)


def test_a_mask_that_is_not_split_and_its_gradient_are_noticed():
    forward, backward = attention_calls(MASKED)
    assert of_another_batch(forward) == [(8, 1, 8192, 8192)]
    assert square(forward.operands, 8192) == [(8, 1, 8192, 8192)]
    assert of_another_batch(backward) == []
    assert square(backward.results, 64) == [(1, 1, 64, 64)]


@pytest.mark.parametrize(
    ("preset", "overrides"),
    [
        ("1.5b/a1_h100", ()),
        ("1.5b/a1_h100", ("mesh={fsdp: 2, tensor: 4}",)),  # more than the two key/value heads
        ("7b/a1_h100", ()),
    ],
)
def test_prefill_is_of_each_gpu_s_own_prompts_and_of_no_mask(preset, overrides):
    program = compiled(preset, "prefill test", *overrides)
    calls = attention_calls(program.text)
    assert [rows_and_places(call) for call in calls] == [{(1, program.length)}] * len(calls) != []
    assert all(of_another_batch(call) == [] for call in calls)
    assert square(shapes(program.text), program.length) == []


@pytest.mark.parametrize(
    ("preset", "overrides"),
    [
        ("1.5b/a1_h100", ()),
        ("1.5b/a1_h100", ("mesh={replica: 2, fsdp: 4}",)),  # each replica computes by itself
        ("7b/a1_h100", ()),
    ],
)
def test_the_gradient_is_of_each_gpu_s_own_rows_and_of_no_mask(preset, overrides):
    program = compiled(preset, "gradient test", *overrides)
    calls = attention_calls(program.text)
    assert program.length >= 12_288  # of a longest sequence at least
    # Layers are scanned: forward, the gradient of queries, and those of keys and values, each of them once.
    assert [rows_and_places(call) for call in calls] == [{(program.rows, program.length)}] * 3
    assert all(of_another_batch(call) == [] for call in calls)
    assert square(shapes(program.text), program.length) == []


def test_absent_gpus_are_described_as_what_they_are():
    devices = absent_gpus(find_hardware("h100:16"))
    assert {device.device_kind for device in devices} == {"NVIDIA H100 80GB HBM3"}
    assert {device.compute_capability for device in devices} == {"9.0"}
    assert [device.process_index for device in devices] == [0] * 8 + [1] * 8


# --- a whole plan -------------------------------------------------------------------------------------

SMALL = (
    "model.compute_dtype=bfloat16",
    "model.architecture={hidden_size: 256, intermediate_size: 512, num_layers: 2, num_heads: 2, head_dim: 128}",
    "mesh={fsdp: 2}",
    "rollout={samples: 2, rows: 4, block: 32, code_prompt_tokens: 256, code_tokens: 256}",
    "code.packing={row_length: 512, micro_batch_tokens: 512, logit_chunk: 512}",
)


@pytest.mark.parametrize("kind", CARDS)
def test_a_small_model_is_planned_for_every_kind_of_gpu(kind):
    config = load(Config, "micro/golden", SMALL)
    plan = make_plan(config, find_hardware(f"{kind}:2"), 0.25, lambda *_: None)
    assert plan.fits and plan.floor < plan.expected_seconds
    rows = {str(row.phase): row for row in plan.rows}
    for row in rows.values():
        assert row.compiled.seconds > 0, str(row.phase)
    # A GPU takes at least what its products do that are counted by hand, however the compiler has cut them into
    # kernels: in a decoded block, the layers' matrices and the vocabulary of 32 x 4 tokens, on two cards.
    flops = vocabulary_flops(plan.run.model, 128) + layers_flops(plan.run.model, 128, 0)
    took = rows["decode code"].compiled.seconds * plan.hardware.chip.flops * plan.hardware.devices
    assert flops <= took
