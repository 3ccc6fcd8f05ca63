"""What `codea1 init` chooses: with few questions or many, on a laptop or a card, a run that shows whether it learns."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import yaml

from codea1_jax.common.chips import GIB, cpu_hardware, find_hardware
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, load
from codea1_jax.config.reasons import as_yaml
from codea1_jax.models.published import QWEN25, SMOLLM2_135M
from codea1_jax.plan.memory import least_memory
from codea1_jax.plan.own_run import Known, OwnRun, TokenLengths, choose
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.search import host_memory
from codea1_jax.training.advice import schedule_advice
from codea1_jax.training.sources import split
from data_pipeline import Problem, micro

MICRO, KODCODE = TokenLengths(74, 160, 32, 17), TokenLengths(600, 750, 420, 45)
CASES = {
    "smollm2 on two cores": ("HuggingFaceTB/SmolLM2-135M-Instruct", SMOLLM2_135M, cpu_hardware(2, 24 * GIB), MICRO),
    "1.5b on 24 GB": ("Qwen/Qwen2.5-Coder-1.5B-Instruct", QWEN25["1.5b"], find_hardware("rtx-4090:1"), KODCODE),
    "1.5b on 80 GB": ("Qwen/Qwen2.5-Coder-1.5B-Instruct", QWEN25["1.5b"], find_hardware("h100:1"), KODCODE),
    "7b on 80 GB": ("Qwen/Qwen2.5-Coder-7B-Instruct", QWEN25["7b"], find_hardware("h100:1"), KODCODE),
}


def questions(count: int) -> tuple[Problem, ...]:
    """The micro world's, repeated under other names."""
    repeated = itertools.islice(itertools.cycle(micro.problems("train", 50, 0)), count)
    return tuple(
        replace(each, id=f"q{i}", entry_point=f"f{i}", solution=each.solution.replace("def f(", f"def f{i}("))
        for i, each in enumerate(repeated)
    )


def known(case: str = "1.5b on 80 GB", count: int = 1000, **other) -> Known:
    model, shape, hardware, lengths = CASES[case]
    facts = {"shape": shape, "hardware": hardware, "lengths": lengths, "free": 500 * GIB, "chats": True}
    facts |= {"source": "own.jsonl", "directory": "own/run", "model": model, "problems": questions(count)}
    return Known(**facts | {"thinks": False} | other)


def held_out(chosen: OwnRun, problems: Sequence[Problem]) -> tuple[int, int]:
    train, heldout = split(tuple(problems), chosen.config.data, None)
    return len(train), len(heldout)


@pytest.mark.parametrize(
    ("case", "count"),
    [
        ("smollm2 on two cores", 20),
        ("1.5b on 24 GB", 200),
        ("1.5b on 80 GB", 20_000),
        ("7b on 80 GB", 20),
        *(pytest.param(*each, marks=pytest.mark.long) for each in itertools.product(CASES, (20, 200, 20_000))),
    ],
)
def test_a_run_fits_its_device_and_has_ten_points_of_a_curve_and_steps_after_its_warm_up(case, count, tmp_path):
    facts = known(case, count)
    chosen = choose(facts)
    config, counts = chosen.config, held_out(chosen, facts.problems)
    held = max(least_memory(make_planned_run(config, facts.hardware)).values())
    assert held <= facts.hardware.chip.memory * 0.875
    assert (config.lora is not None) == (case in ("1.5b on 24 GB", "7b on 80 GB"))  # only where all do not fit
    steps = config.train.total_steps(counts[0])
    assert steps == chosen.steps >= 40
    assert steps - min(10, math.ceil(0.1 * steps)) >= 36  # after the warm-up
    assert chosen.evaluations == len({0, steps, *range(0, steps, config.eval.every)}) >= 11
    assert counts[1] == len(chosen.heldout) >= (4 if count == 20 else 16)
    assert list(schedule_advice(config, *counts)) == []
    assert steps / config.checkpoint.every >= 4  # a crash loses a part of a run
    file = tmp_path / "config.yaml"
    file.write_text(as_yaml(chosen.preset, ["why"]))
    assert load(Config, str(tmp_path)) == config
    assert all("  # " in line for line in file.read_text().splitlines()[1:] if not line.endswith(":"))


def test_a_laptop_short_of_memory_computes_layers_again_before_it_trains_adapters_or_is_refused():
    def chosen(gib: float) -> OwnRun:
        return choose(known("smollm2 on two cores", hardware=cpu_hardware(2, int(gib * GIB))))

    roomy, tight, tightest = map(chosen, (24, 7, 4))
    assert [each.config.model.remat for each in (roomy, tight, tightest)] == ["none", "full", "full"]
    assert [each.config.lora is not None for each in (roomy, tight, tightest)] == [False, False, True]
    forecasts = [each.memory or 0 for each in (tightest, tight, roomy)]
    assert forecasts == sorted(forecasts) and forecasts[0] > 0
    with pytest.raises(UserError, match=r"does not fit 2 CPU cores, nor do adapters over it"):
        chosen(1)


SFT = """
run: {directory: run}
model: {pretrained: Qwen/Qwen2.5-Coder-0.5B-Instruct, compute_dtype: float32, remat: none}
lora: {rank: 16, alpha: 32}
method: {name: sft, test_prompt: short}
data: {source: own.jsonl}
rollout: {test_prompt_tokens: 416, test_tokens: 256}
test: {packing: {row_length: 1024, micro_batch_tokens: 1024, logit_chunk: 128}, grpo: {mini_batch_questions: 4}}
train: {questions: 4}
eval: {every: 0}
"""


@pytest.mark.parametrize(("preset", "peak"), [("smollm2-135m/a1", 9.34e9), ("own", 7.94e9)])
def test_the_forecast_of_a_process_on_a_cpu_is_within_15_percent_of_what_was_measured(preset, peak, tmp_path):
    """By the kernel's count on two cores: five steps with evaluations at cef27638, and twenty of sft at f5c6e4b1."""
    (tmp_path / "config.yaml").write_text(SFT)
    config = load(Config, str(tmp_path) if preset == "own" else preset)
    assert host_memory(make_planned_run(config, cpu_hardware(2, 24 * GIB))) == pytest.approx(peak, rel=0.15)


def test_half_a_billion_parameters_on_a_laptop_are_adapters_and_short_steps():
    facts = known("smollm2 on two cores", shape=QWEN25["0.5b"])
    chosen = choose(facts)
    assert chosen.config.lora is not None and chosen.config.train.questions == 2
    assert (chosen.steps, chosen.evaluations, chosen.config.rewards.suite_size) == (30, 6, 4)
    assert list(schedule_advice(chosen.config, *held_out(chosen, facts.problems))) == []


def test_checkpoints_fit_the_disk_or_adapters_are_trained_whose_own_do():
    roomy, tight = choose(known(free=130 * GIB)), choose(known(free=100 * GIB))
    assert (roomy.config.checkpoint.keep_last, tight.config.checkpoint.keep_last) == (2, 1)
    adapters = choose(known(free=50 * GIB))
    assert adapters.config.lora is not None and adapters.checkpoint < GIB
    with pytest.raises(UserError, match=r"own/run: two checkpoints take .* GiB, and 0\.1 are free; make room"):
        choose(known(free=GIB // 10))


def test_what_no_run_can_be_made_of_is_refused_in_a_line():
    with pytest.raises(UserError, match=r"own.jsonl has 11 usable questions; a run takes at least 12"):
        choose(known(count=11))
    alike = [replace(problem, solution="def f(x):\n    return x\n") for problem in known(count=30).problems]
    with pytest.raises(UserError, match=r"has too few different solutions: (0|30) of its questions"):
        choose(replace(known(count=30), problems=alike))
    with pytest.raises(UserError, match=r"does not fit rtx-4090:1, nor do adapters over it"):
        choose(known("7b on 80 GB", hardware=find_hardware("rtx-4090:1")))
    with pytest.raises(UserError, match=r"exceed the context of .*, 32768; leave the longest out"):
        choose(known(lengths=TokenLengths(40_000, 40_000, 100, 20)))


def test_settings_follow_the_model_and_the_questions():
    chosen = choose(known(thinks=True, jailed=False, lengths=replace(KODCODE, golden_test=0))).config
    assert chosen.model.enable_thinking is False and chosen.sandbox.fallback == "process"
    assert chosen.rollout.test_tokens == 1024  # nothing to measure them by
    assert chosen.rollout.code_tokens >= 2 * KODCODE.reference
    assert chosen.rollout.test_prompt_tokens >= KODCODE.test_prompt + chosen.rollout.code_tokens
    many = choose(known(hardware=find_hardware("h100:2")))
    assert many.config.mesh.shape(2) and "mesh" in yaml.safe_load(as_yaml(many.preset, []))


def test_a_small_model_keeps_a_large_device_busy():
    # Measured on an H200: with rows for an eighth of a step's suites most of a step was spent on decoding them, and
    # the first choice for learning, one row of 1,916 tokens at a time, would have been 500 calls.
    chosen = choose(known("smollm2 on two cores", hardware=find_hardware("h200:1"))).config
    suites = chosen.train.questions * chosen.rollout.samples * chosen.rollout.suites
    assert chosen.rollout.rows >= suites / 4
    for policy in (chosen.code, chosen.test):
        rows, rest = divmod(policy.packing.micro_batch_tokens, policy.packing.row_length)
        assert rows > 1 and rest == 0
        assert 8192 < policy.packing.micro_batch_tokens <= 16384
