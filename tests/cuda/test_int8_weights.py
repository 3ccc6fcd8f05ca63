"""Matrices of eight bits are converted as they are read, and not before, in memory."""

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, load
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.arithmetic.planned_run import make_planned_run
from codea1_jax.plan.compiled.cuda import absent_gpus
from codea1_jax.plan.compiled.programs import make_programs
from codea1_jax.rollout.quantize import rounded_numbers

LAYERS = 2
SHAPE = "{hidden_size: 1536, intermediate_size: 8960, num_layers: 2, num_heads: 12, num_kv_heads: 2, head_dim: 128}"
SETTINGS = (
    "model.pretrained=null",
    f"model.architecture={SHAPE}",
    "data.source=micro",
    "prompts=plain",
    "eval.datasets=[]",
    "data.heldout_share=0.1",
    "rollout.rows=64",
    "code.grpo.importance_cap=2",
    "test.grpo.importance_cap=2",
)


def decoding(*settings):
    hardware = find_hardware("h100:1")
    config = load(Config, "1.5b/a1_h100x1", [*SETTINGS, *settings])
    run = make_planned_run(config, hardware)
    programs = make_programs(run, make_mesh(config.mesh, absent_gpus(hardware)))
    (found,) = (program for program in programs if str(program.name) == "decode code")
    return run, found.lower().compile()


def test_no_matrix_is_converted_in_memory():
    run, plain = decoding()
    _, rounded = decoding("rollout.weight_dtype=int8")
    numbers = LAYERS * rounded_numbers(run.model)
    before, after = plain.memory_analysis(), rounded.memory_analysis()
    saved = before.argument_size_in_bytes - after.argument_size_in_bytes
    assert 0.99 * numbers < saved < numbers  # a byte each, except for the scales
    matrix = run.model.hidden_size * run.model.intermediate_size
    assert after.temp_size_in_bytes - before.temp_size_in_bytes < matrix  # half of one converted
