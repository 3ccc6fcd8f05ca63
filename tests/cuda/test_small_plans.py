"""Plans of small models for GPUs that are not here: evaluations draw by top-p on the devices that hold a row, and in no
more memory; what waits in host memory is counted on no GPU, although absent GPUs know no memory but their own.
"""

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, load
from codea1_jax.models.flops import parameters
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.cuda import absent_gpus
from codea1_jax.plan.hlo import received_bytes
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.programs import make_programs
from codea1_jax.plan.workload import sampling_loads

SMALL = ("model.pretrained=null", "data.source=micro", "prompts=plain", "eval.datasets=[]")
SHAPE = "{hidden_size: 256, intermediate_size: 512, num_layers: 2, num_heads: 4, num_kv_heads: 2, head_dim: 64}"


def test_no_device_filters_the_rows_of_another():
    hardware = find_hardware("h100:8")
    one_layer = f"model.architecture={SHAPE.replace('layers: 2', 'layers: 1')}"
    config = load(Config, "1.5b/a1_h100", [*SMALL, one_layer, "data.heldout_share=0.1", "rollout.rows=512"])
    run = make_planned_run(config, hardware)
    compiled = {
        str(program.name): program.lower().compile()
        for program in make_programs(run, make_mesh(config.mesh, absent_gpus(hardware)))
        if str(program.name) in ("decode code", "evaluate code")
    }
    received = {name: received_bytes(each.as_text()) for name, each in compiled.items()}
    temporaries = {name: each.memory_analysis().temp_size_in_bytes for name, each in compiled.items()}
    capacity = run.capacity(sampling_loads(config)[0])
    logits = 4 * run.model.vocab_size * capacity.rows // capacity.batch_shards
    assert received["evaluate code"] == received["decode code"]
    assert temporaries["evaluate code"] < temporaries["decode code"] + 4 * logits  # those of all rows are eight times


def test_moments_that_wait_elsewhere_are_not_resident():
    hardware, resident = find_hardware("h100:1"), {}
    for offloaded in ("false", "true"):
        settings = (f"offload.optimizer={offloaded}", f"model.architecture={SHAPE}")
        config = load(Config, "1.5b/a1_h100x1", [*SMALL, *settings, "rollout.cache_tokens=40000"])
        run = make_planned_run(config, hardware)
        devices = absent_gpus(hardware)
        programs = make_programs(run, make_mesh(config.mesh, devices))
        resident[offloaded] = {str(program.name): program.resident for program in programs}
    moments = 8 * parameters(run.model)

    def freed(phase: str) -> int:
        return resident["false"][phase] - resident["true"][phase]

    assert abs(freed("decode code") - 2 * moments) < 100  # steps that are counted in moments
    assert abs(freed("gradient test") - 2 * moments) < 100
    assert abs(freed("update test") - moments) < 100  # the policy's own are there, as an argument
