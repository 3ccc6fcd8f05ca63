"""`codea1 plan`: a small model, in the long suite compiled for a TPU that is not there; what cannot fit is refused."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from one_line import refused

from codea1_jax import cli
from codea1_jax.common.chips import CHIPS, GIB, find_hardware
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, load, preset_names
from codea1_jax.models.decoder import Transformer
from codea1_jax.models.flops import parameters
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.plan import compiler
from codea1_jax.plan.compiler import Compiled, CompilerError, ProgramName, compile_programs
from codea1_jax.plan.forecast import step_calls
from codea1_jax.plan.memory import least_memory, refuse_what_cannot_fit, resident, saved
from codea1_jax.plan.phases import layout_table
from codea1_jax.plan.plan import as_document, make_plan
from codea1_jax.plan.planned_run import make_planned_run, planned_run_on
from codea1_jax.plan.programs import make_programs
from codea1_jax.plan.table import conclusion, markdown, planned
from codea1_jax.plan.workload import Phase, sampling_loads
from codea1_jax.rollout.decode_params import abstract_decode_params
from codea1_jax.rollout.readers import reader_for

ROOT = Path(__file__).parents[2]

# All dimensions are multiples of what a TPU's memory is tiled by, so that arrays take what their shapes say.
SMALL = (
    "model.compute_dtype=bfloat16",
    "model.remat=full",
    "model.architecture={hidden_size: 256, intermediate_size: 512, num_layers: 2, num_heads: 2, head_dim: 128}",
    "mesh={fsdp: 2, tensor: 2}",
    "train.questions=4",
    "rollout={samples: 2, rows: 4, block: 32, code_prompt_tokens: 256, code_tokens: 256, engine: jetstream}",
    "rollout.prefill_tokens=512",
    "code.packing={row_length: 512, micro_batch_tokens: 512, logit_chunk: 512}",
    "code.grpo.mini_batch_questions=2",
)
# Per layer: QKV with biases, output, SwiGLU, two norms. Then the final norm and the table of 358 words.
LAYER = 256 * 256 * 4 + 3 * 256 + 3 * 256 * 512 + 2 * 256
PARAMETERS = 2 * LAYER + 256 + 358 * 256


def silent(line):
    """Shows nothing."""


def compiled_plan():
    """The plan, and what was told of its programs on the way."""
    config = load(Config, "micro/golden", ["code.grpo.kl_coef=0.001", "eval.top_p=0.9", *SMALL])
    seen = []
    plan = make_plan(config, find_hardware("v5e:2x2"), 1.0, seen.append)
    return plan, seen


@pytest.fixture(scope="module")
def small_plan():
    """Compiled by libtpu."""
    return compiled_plan()


def fast_compiler(config, hardware, names, report):
    """Every program takes a millisecond for matrices and holds a megabyte; top-p takes longer."""
    for done, name in enumerate(names, start=1):
        report(f"{done}/{len(names)} compiling {name}")
        report(f"{done}/{len(names)} {name}: compiled")
    spent = {name: 0.002 if name.phase.kind == "evaluate" else 0.001 for name in names}
    return {name: Compiled(2**20, 0, 0, 0, 0, received=0.0, seconds=spent[name]) for name in names}


@pytest.fixture
def uncompiled_plan(monkeypatch):
    monkeypatch.setattr("codea1_jax.plan.plan.compile_programs", fast_compiler)
    return compiled_plan()


def smaller_of_compiled(plan, seen):
    """The smaller programs. Every program, the largest of each phase first, was reported as it began and ended."""
    names = [str(row.phase) for row in plan.rows]
    begun = [line.partition(" compiling ")[2] for line in seen[::2]]
    ended = [line.partition(" ")[2].partition(":")[0] for line in seen[1::2]]
    learning = ["score-old code", "score-ref code", "gradient code", "clear code", "update code"]
    assert names == ["weights code", "prefill code", "decode code", "evaluate code", *learning]
    assert plan.fits
    smaller = [str(name) for name in plan.step.smaller_programs(plan.run)]
    assert set(begun) == {*names, *smaller} and begun == ended and len(begun) == len(names) + len(smaller)
    assert [line.split()[0] for line in seen] == [f"{i // 2 + 1}/{len(begun)}" for i in range(2 * len(begun))]
    return smaller


def test_every_phase_is_compiled_and_no_half_micro_batch_where_all_are_full(uncompiled_plan):
    assert smaller_of_compiled(*uncompiled_plan) == []


@pytest.mark.long
def test_memory_is_that_of_the_shapes(small_plan):
    plan, seen = small_plan
    assert smaller_of_compiled(plan, seen) == []
    rows = {str(row.phase): row.compiled for row in plan.rows}
    share = PARAMETERS * 4 / 4  # float32 over four chips
    # The update takes parameters, two moments and the gradient; what else stays is the reference.
    assert rows["update code"].arguments == pytest.approx(4 * share, rel=0.03)
    assert rows["update code"].resident == pytest.approx(share / 2, rel=0.03)  # in bfloat16
    # Zeros for the gradient, next to parameters, two moments and the reference.
    assert rows["clear code"].memory == pytest.approx(4.5 * share, rel=0.15)  # and a step's batches
    # The gradient takes and gives back its sum so far, and the parameters; two moments and the reference stay.
    assert rows["gradient code"].aliased == pytest.approx(share, rel=0.03)
    assert rows["gradient code"].resident == pytest.approx(2.5 * share, rel=0.15)  # and a step's batches
    # Sampling takes a bfloat16 copy split over `tensor`; and of two prompts and two responses a shard of the batch,
    # the pages for one of the two heads.
    cache = 2 * 2 * 128 * 2 * (2 * 256 + 2 * (256 - 32))
    assert rows["decode code"].arguments == pytest.approx(PARAMETERS * 2 / 2 + cache, rel=0.03)
    assert rows["decode code"].resident == pytest.approx(3.5 * share, rel=0.03)
    assert rows["evaluate code"].arguments == pytest.approx(rows["decode code"].arguments, rel=0.01)
    assert rows["evaluate code"].memory >= rows["decode code"].memory
    for phase, least in least_memory(plan.run).items():
        assert least <= rows[str(phase)].memory


@pytest.mark.long
def test_the_gradient_of_a_micro_batch_moves_at_least_each_matrix_once(small_plan):
    plan, _ = small_plan
    rows = {str(row.phase): row.compiled for row in plan.rows}
    matrices = 2 * (256 * 256 * 4 + 3 * 256 * 512)
    once = matrices * 2 / 2 / 2  # bfloat16, split over tensor; the other half comes from the other chip of fsdp
    assert once <= rows["weights code"].received < 2 * once
    assert rows["score-ref code"].received >= once
    assert rows["gradient code"].received >= 2 * once
    assert rows["update code"].received < 1000  # the gradient's norm
    # Drawing by top-p looks at the whole vocabulary again and again.
    assert plan.call_seconds[Phase("evaluate", "code")] > plan.call_seconds[Phase("decode", "code")]


def test_the_plan_says_how_fast_a_step_can_be(uncompiled_plan):
    plan, _ = uncompiled_plan
    rows = {str(row.phase): row for row in plan.rows}
    evaluate = rows["evaluate code"]  # no step waits for it
    assert evaluate.calls == evaluate.expected_seconds == evaluate.step_seconds == 0
    block = plan.call_seconds[Phase("evaluate", "code")] - plan.call_seconds[Phase("decode", "code")]
    assert block == pytest.approx(0.001)
    assert plan.floor == pytest.approx(sum(row.work.calls * row.seconds for row in plan.rows))
    assert plan.tokens_per_second * plan.expected_seconds == pytest.approx(plan.step.drawn)
    # A step is expected to take longer than nothing could undercut, and every phase has its share.
    phases = sum(row.expected_seconds for row in plan.rows)
    assert plan.floor < plan.expected_seconds == pytest.approx(phases + plan.judging)
    assert all(row.expected_seconds > row.calls * 1e-3 for row in plan.rows if row.calls)  # the host's part alone
    learning = [row for row in plan.rows if not row.phase.is_sampling]
    least = sum(row.work.useful for row in learning) / (197e12 * 4)  # of four v5e, at the peak
    assert plan.learning_utilization == pytest.approx(least / sum(row.expected_seconds for row in learning))
    text = markdown({"small": planned(plan)})
    assert "| small | v5e:2x2 | yes |" in text and "fits v5e:2x2" in conclusion(plan)[0]
    document = as_document(plan)
    assert (document["fits"], document["compiled"], document["expected_seconds"]) == (True, True, plan.expected_seconds)
    assert document["floor_seconds"] == plan.floor
    assert document["phases"]["update code"]["fix"] is None and len(document["phases"]) == len(plan.rows)


def test_counting_a_step_takes_no_device():
    """On a machine that trains, a plan must not take the accelerator: here, asking for any would fail."""
    script = """
from codea1_jax.config import Config, load
from codea1_jax.common.chips import find_hardware
from codea1_jax.plan.planned_run import make_planned_run, planned_run_on
from codea1_jax.plan.programs import make_programs
from codea1_jax.plan.forecast import step_calls
run = make_planned_run(load(Config, "1.5b/a1_h100", ["train.questions=8"]), find_hardware("h100:8"))
assert step_calls(run, 0.1).calls["gradient", "test"].pairs > 0
"""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"JAX_PLATFORMS": "rocm", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stderr


def test_shorter_responses_make_shorter_steps_of_the_same_programs():
    config = load(Config, "1.5b/a1_v5e")
    run = make_planned_run(config, find_hardware("v5e:4x4"))
    table = layout_table(run, 0.5)
    for phase, whole in layout_table(run, 1.0).items():
        half = table[phase]
        assert whole.calls > half.calls or phase.kind in ("weights", "evaluate", "clear", "update")
        assert whole.flops >= half.flops and whole.traffic >= half.traffic  # attention sees fewer tokens
    calls = {str(phase): work.calls for phase, work in table.items()}
    assert calls["decode code"] == 256 * 8 * 2048 / (256 * 8 * 32)  # all samples at once
    assert calls["prefill code"] == 256 * 2048 / (8192 * 16)
    assert calls["gradient test"] == 256 * (4096 + 8 * 2048) / 24_576 / 16  # prompts once, a row a chip


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7])
def test_no_micro_batch_is_larger_than_the_one_that_is_planned(rows):
    overrides = [
        f"{policy}.packing={{row_length: {row}, micro_batch_tokens: {rows * row}}}"
        for policy, row in (("code", 8192), ("test", 12_288))
    ]
    run = make_planned_run(load(Config, "1.5b/a1_h100", overrides), find_hardware("h100:8"))
    calls = step_calls(run, 0.25).calls
    for policy in ("code", "test"):
        planned_shape = run.micro_batch(policy)
        assert planned_shape[0] == 8 * rows
        assert all(np.less_equal(shape, planned_shape).all() for shape in calls["gradient", policy].shapes)


def test_adapters_over_one_base_fit_where_two_whole_policies_do_not():
    presets = ("7b/a1_lora_v5e", "v5e:2x4"), ("7b/a1_lora_h100", "h100:1")
    for preset, topology in presets:
        config, hardware = load(Config, preset), find_hardware(topology)
        run = make_planned_run(config, hardware)
        refuse_what_cannot_fit(run, hardware)
        # Rank 16, 28 layers: attention, three matrices of the feed-forward. A policy has two moments besides.
        sides = 2 * (3584 + 3584) + 2 * (3584 + 512) + 3 * (3584 + 18_944)
        adapters = 28 * 16 * sides
        assert resident(run) == (2 * 7_615_616_512 + 2 * 3 * 4 * adapters) / hardware.devices
        with pytest.raises(UserError, match="does not fit"):
            refuse_what_cannot_fit(make_planned_run(config.model_copy(update={"lora": None}), hardware), hardware)


def test_every_phase_of_two_models_is_as_in_a_plan_of_its_own_model():
    """A Code LLM of 7B against a Test LLM of 1.5B: the table, by whose phase it is; what is kept, by hand."""
    hardware = find_hardware("h100:8")
    small = "Qwen/Qwen2.5-Coder-1.5B-Instruct"
    mixed, seven, one = (
        make_planned_run(load(Config, "7b/a1_h100", chosen), hardware)
        for chosen in ([f"test.model.pretrained={small}"], [], [f"model.pretrained={small}"])
    )
    tables = {"code": layout_table(seven, 0.25), "test": layout_table(one, 0.25)}
    for phase, work in layout_table(mixed, 0.25).items():
        assert work == tables[phase.owner][phase], phase
        if phase.kind == "decode":
            decoded = least_memory(mixed)[phase] - resident(mixed)
            alone = seven if phase.owner == "code" else one
            assert decoded == pytest.approx(least_memory(alone)[phase] - resident(alone))
    # Parameters and two moments in float32; the shared reference and the Test LLM's own in bfloat16.
    assert resident(mixed) == (7_615_616_512 + 1_543_714_304) * (12 + 2) / 8


def test_two_models_lower_to_programs_of_their_own_sizes():
    small = "test.model.architecture={hidden_size: 128, intermediate_size: 256}"
    run = planned_run_on(load(Config, "micro/a1", [*SMALL, small, "mesh={fsdp: 1, tensor: 1}"]), "cpu", 1)
    updates = [ProgramName(Phase("update", name)) for name in ("code", "test")]
    for program in make_programs(run, one_device_mesh(), updates):
        state = program.program.arguments[0]
        held = sum(math.prod(x.shape) for x in jax.tree.leaves(state.params))
        assert held == parameters(run.for_policy(program.name.phase.owner).model)


@pytest.mark.long
def test_learning_adapters_takes_no_more_memory_than_their_shapes_say():
    lora = [*SMALL, "code.grpo.kl_coef=0.001", "lora.rank=8", "offload.optimizer=true"]
    config = load(Config, "micro/golden", lora)
    phases = ["score-ref code", "gradient code", "clear code", "update code"]
    wanted = [ProgramName(Phase(*phase.split())) for phase in phases]
    rows = {str(name): row for name, row in compile_programs(config, find_hardware("v5e:2x2"), wanted, silent).items()}
    base, moments = PARAMETERS * 2 / 4, 2 * 4 * 2 * 8 * (8 * 256 + 3 * (256 + 512))
    assert rows["score-ref code"].arguments == pytest.approx(base, rel=0.1)
    assert rows["gradient code"].arguments == pytest.approx(base, rel=0.5)  # and the adapters, a sum like them, a batch
    assert rows["gradient code"].aliased < 0.5 * base
    assert rows["update code"].arguments < 2 * moments
    assert rows["update code"].resident == pytest.approx(base, rel=0.03)
    assert rows["gradient code"].resident < rows["score-ref code"].resident  # adapters are there, but no moments


def test_what_waits_in_host_memory_is_not_on_the_devices():
    hardware = find_hardware("h100:8")
    settings = ((), ("offload.optimizer=true",))
    here, there = (make_planned_run(load(Config, "7b/a1_h100", chosen), hardware) for chosen in settings)
    assert resident(here) == 7_615_616_512 * (2 * 12 + 2) / 8
    assert resident(there) == 7_615_616_512 * (2 * 4 + 2) / 8
    assert least_memory(there)["update", "code"] == 7_615_616_512 * (2 * 4 + 2 + 4 + 8) / 8
    assert saved(here.config, here.shapes) == saved(there.config, there.shapes) == 8 * resident(here)


def test_every_shipped_hardware_preset_passes_the_bound_of_its_hardware():
    # The other methods need no more than the paper's own.
    for name in (name for name in preset_names() if re.fullmatch(r".*/a1(_lora|_from_sft)?_(v|h|tpu)\d+\w", name)):
        config = load(Config, name)
        hardware = find_hardware(config.hardware)
        refuse_what_cannot_fit(make_planned_run(config, hardware), hardware)


@pytest.mark.parametrize("preset", ["1.5b/a1_v5e", "7b/a1_h100"])
def test_a_cache_and_what_is_sampled_from_take_the_bytes_that_their_arrays_have(preset):
    config = load(Config, preset)
    run = make_planned_run(config, find_hardware(config.hardware))
    capacity, width = run.capacity(sampling_loads(config)[1]), reader_for(run.platform).width(run.model.head_dim)
    heads = run.tensor if run.model.num_kv_heads % run.tensor == 0 else 1  # parts that these are split into
    store = capacity.pages * run.model.num_kv_heads * capacity.block * width
    assert run.cache(capacity) == 2 * run.model.num_layers * store * 2 / run.batch_shards / heads

    arrays = jax.tree.leaves(abstract_decode_params(Transformer(run.model, jnp.dtype("bfloat16")), one_device_mesh()))
    assert run.compute_param_bytes * run.tensor == sum(x.size * x.dtype.itemsize for x in arrays)


# --- what is refused ----------------------------------------------------------------------------------


def test_what_cannot_fit_is_refused_before_anything_is_compiled(capsys, monkeypatch):
    monkeypatch.setattr(compiler, "WORKER", ("false",))
    line = refused(capsys, "plan", "7b/a1_v5e", "--topology", "v5e:2x2", "mesh={fsdp: 4}")
    # Two policies with two moments each in float32 and the reference in bfloat16, of 7.6 billion over four chips.
    assert f"{6.5 * 7_615_616_512 / GIB:.1f} of them for what always stays" in line and "take more chips" in line


@pytest.mark.parametrize(
    ("overrides", "fix"),
    [
        (["mesh={fsdp: 64}"], "raise mesh.tensor"),
        (["mesh={replica: 16, fsdp: 1, tensor: 4}"], "set mesh.replica=1"),
        (["rollout.cache_tokens=100000000", "rollout.rows=65536"], "lower rollout.cache_tokens"),
        (["code.packing.micro_batch_tokens=131072", "model.remat=none"], "set model.remat=full"),
        (["code.packing.micro_batch_tokens=131072"], "lower code.packing.micro_batch_tokens"),
    ],
)
def test_a_refusal_says_what_to_change(overrides, fix, capsys):
    assert fix in refused(capsys, "plan", "7b/a1_v5e", *overrides)


def test_the_plan_of_an_unchanged_preset_is_the_shipped_one_as_the_page_shows_it(capsys, monkeypatch):
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: None)  # no compiler is here
    assert cli.main(["plan", "1.5b/a1_v5e", "--price", "19.2"]) == 0
    shown = capsys.readouterr().out
    assert f"```text\n{shown}```\n" in (ROOT / "docs" / "planning.md").read_text()
    other_slice = ["--topology", "v5e:8x8", "mesh.fsdp=64"]
    for changed in (["--compile"], ["--fill", "0.5"], ["rollout.samples=4"], ["--json"], other_slice):
        assert "needs libtpu" in refused(capsys, "plan", "1.5b/a1_v5e", *changed)


def test_hardware_that_is_unknown_not_stated_or_not_what_the_mesh_is_for_is_refused(capsys):
    for name in ("v9:2x2", "v5e", "v5e:2x2x2", "v5p:4x4", "h100:0", "v5e:0x4"):
        line = refused(capsys, "plan", "micro/a1", "--topology", name)
        assert name in line and all(chip in line for chip in CHIPS)

    assert "pass --topology" in refused(capsys, "plan", "micro/a1")

    assert "mesh.fsdp=3" in refused(capsys, "plan", "micro/a1", "--topology", "v5e:2x2", "mesh.fsdp=3")


def test_a_missing_compiler_is_one_line_with_the_cure(capsys, monkeypatch):
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: None)
    assert "codea1-jax[plan]" in refused(capsys, "plan", "micro/a1", "--topology", "v5e:2x2")
    assert "codea1-jax[plan-cuda]" in refused(capsys, "plan", "micro/a1", "--topology", "h100:1")


# --- a compiler that dies ----------------------------------------------------------------------------


def worker(monkeypatch, script):
    monkeypatch.setattr(compiler, "WORKER", (sys.executable, "-c", "import json, os, sys\n" + script))


CONFIG = load(Config, "micro/a1")
HARDWARE = find_hardware("v5e:2x2")
SIZES = {"resident": 1, "arguments": 2, "temporaries": 3, "outputs": 4, "aliased": 4}
FIGURES = {**SIZES, "received": 0.0, "seconds": 0.75}
A, B = Phase("clear", "code"), Phase("decode", "code")
WANTED = [ProgramName(A), ProgramName(B, (16, 8)), ProgramName(B)]


def test_a_compiler_that_aborts_for_want_of_memory_refuses_that_phase_and_goes_on(monkeypatch):
    worker(
        monkeypatch,
        f"""
for name in json.load(sys.stdin)["programs"]:
    print(json.dumps({{"begun": name}}), flush=True)
    if name[1]:
        sys.stderr.write("F1121 RESOURCE_EXHAUSTED: Used 20.53G of 15.75G hbm. Exceeded hbm capacity by 4.78G.")
        sys.stderr.flush()
        os.abort()
    print(json.dumps({FIGURES}), flush=True)
""",
    )
    results = compile_programs(CONFIG, HARDWARE, WANTED, silent)
    compiled = Compiled(**FIGURES)
    assert results == dict(zip(WANTED, (compiled, "needs 20.53G of 15.75G", compiled), strict=True))
    assert (compiled.memory, compiled.seconds) == (6, 0.75)


def test_a_program_that_cannot_be_made_ends_the_plan_and_one_without_room_does_not(monkeypatch):
    script = """
for name in json.load(sys.stdin)["programs"]:
    print(json.dumps({"begun": name}), flush=True)
    print(json.dumps({"error": ERROR}), flush=True)
"""
    worker(monkeypatch, script.replace("ERROR", "'RESOURCE_EXHAUSTED: (20.1G) exceeds available HBM (15.7G)'"))
    assert set(compile_programs(CONFIG, HARDWARE, WANTED, silent).values()) == {"needs 20.1G of 15.7G"}
    worker(monkeypatch, script.replace("ERROR", "'INTERNAL: no tile sizes\\nmore'"))
    with pytest.raises(CompilerError, match=r"^clear code: the compiler failed: INTERNAL: no tile sizes$"):
        compile_programs(CONFIG, HARDWARE, WANTED, silent)


def test_a_compiler_that_fails_otherwise_says_how(monkeypatch):
    begun = "print(json.dumps({'begun': [['clear', 'code'], []]}), flush=True)"
    worker(monkeypatch, f"{begun}; sys.exit('no such instruction')")
    with pytest.raises(CompilerError, match="no such instruction"):
        compile_programs(CONFIG, HARDWARE, WANTED, silent)
    worker(monkeypatch, "print(json.dumps({'refused': 'v5e:2x2 is not known hardware'}))")
    with pytest.raises(UserError, match="v5e:2x2 is not known hardware"):
        compile_programs(CONFIG, HARDWARE, WANTED, silent)
