"""The decoding of evaluations draws by top-p: on the devices that hold a row, and in no more memory."""

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, load
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.cuda import absent_gpus
from codea1_jax.plan.hlo import received_bytes
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.programs import make_programs
from codea1_jax.plan.workload import sampling_loads

SMALL = ("model.pretrained=null", "data.source=micro", "prompts=plain", "eval.datasets=[]", "data.heldout_share=0.1")
SHAPE = "{hidden_size: 256, intermediate_size: 512, num_layers: 1, num_heads: 4, num_kv_heads: 2, head_dim: 64}"


def test_no_device_filters_the_rows_of_another():
    hardware = find_hardware("h100:8")
    config = load(Config, "1.5b/a1_h100", [*SMALL, f"model.architecture={SHAPE}", "rollout.rows=512"])
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
