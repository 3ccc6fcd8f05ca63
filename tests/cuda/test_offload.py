"""What waits in host memory is counted on no GPU, although GPUs that are not there know no memory but their own."""

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, load
from codea1_jax.models.flops import parameters
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.cuda import absent_gpus
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.programs import make_programs

SMALL = ("model.pretrained=null", "data.source=micro", "prompts=plain", "eval.datasets=[]")
SHAPE = "{hidden_size: 256, intermediate_size: 512, num_layers: 2, num_heads: 4, num_kv_heads: 2, head_dim: 64}"


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
