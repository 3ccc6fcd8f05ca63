"""Presets compose and resolve; whatever is wrong is one line that names the key."""

from pathlib import Path

import pytest
import yaml
from pydantic import Field

import configs
from codea1_jax.common.errors import UserError
from codea1_jax.config import METHODS, Config, Section, dump, load, preset_names
from codea1_jax.config.presets import by_key
from configs import PARTS, PRESETS
from data_pipeline import Problem
from data_pipeline.reading import hold_out


class Inner(Section):
    rate: float = Field(0.5, gt=0, description="a number above 0")
    name: str = Field("a", description="a name")


class Outer(Section):
    steps: int = Field(3, description="a count")
    inner: Inner = Inner()
    optional: Inner | None = Field(None, description="a part that may be missing")


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def refusal(preset: str, *overrides: str, schema: type[Section] = Config) -> str:
    with pytest.raises(UserError) as caught:
        load(schema, preset, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def presets() -> dict[str, Config]:
    """Every shipped preset, resolved."""
    return {name: load(Config, name) for name in preset_names()}


def test_every_shipped_preset_resolves(presets):
    for name, config in presets.items():
        assert "$" not in config.model_dump_json(), name


@pytest.mark.parametrize("name", ["micro/a1_paper", "micro/sft", "1.5b/static_a1", "7b/a1_lora_v5e", "7b/golden_h200"])
def test_a_resolved_preset_reads_back_as_it_was_written(name, tmp_path):
    config = load(Config, name)
    assert load(Config, write(tmp_path, "resolved.yaml", dump(config))) == config


@pytest.mark.parametrize("model", ["1.5b", "3b", "7b"])
def test_a_name_is_model_method_and_hardware(model):
    config = load(Config, f"{model}/static_sft_v5p")
    assert config.model.pretrained == f"Qwen/Qwen2.5-Coder-{model.upper()}-Instruct"
    assert (config.method.name, config.data.golden_tests) == ("golden", f"runs/{model}-suites-sft/problems.jsonl")
    assert config.hardware is not None and config.hardware.startswith("v5p:")
    anywhere = load(Config, f"{model}/static_sft")
    assert anywhere.hardware is None and anywhere.method == config.method
    assert config.run.directory == anywhere.run.directory == f"runs/{model}-static-sft"


@pytest.mark.parametrize("name", ["1.5b/a1", "3b/golden_v5p", "7b/a1_lora_h100"])
def test_real_models_are_validated_while_they_train_as_in_the_paper(name):
    validation = load(Config, name).eval
    assert (validation.every, validation.temperature, validation.top_p) == (10, 0.7, 0.95)
    assert validation.datasets == ("evalplus/humanevalplus", "evalplus/mbppplus")


def test_real_models_train_on_kodcode_and_models_of_the_micro_world_on_that(presets):
    for name, config in presets.items():
        source, real = config.data.source, config.model.pretrained is not None
        # The last one answers easy questions.
        small = {**dict.fromkeys(configs.MICROS, ("micro", False)), "smollm2-135m": ("micro", True)}
        assert (source, real) == small.get(name.partition("/")[0], ("data/kodcode", True)), name


def test_what_is_made_for_hardware_that_may_be_taken_away_saves_after_every_step(presets):
    """A stop drops the step it interrupts; its beginning must be saved by then, while the next one is written."""
    played = {name: config for name, config in presets.items() if not METHODS[config.method.name].supervised}
    made = [config for config in played.values() if config.hardware is not None]
    assert len(made) > 100
    assert {config.checkpoint.every for config in made} == {1}
    assert all(config.checkpoint.keep_last >= 2 for config in made)
    assert {config.checkpoint.every for name, config in played.items() if name.startswith("micro/")} == {25}


def test_the_papers_questions_are_the_papers_steps(presets):
    """3 epochs of 9,688 questions, 256 a step, the incomplete last batch dropped: 3 x 37."""
    questions = tuple(Problem(str(i), "?", f"def f():\n    return {i}", "f", ()) for i in range(9688))
    real = {name: config for name, config in presets.items() if config.data.source == "data/kodcode"}
    for share, at_most in {(config.data.heldout_share, config.data.heldout_problems) for config in real.values()}:
        assert hold_out(questions, share, at_most) == (questions, ())
    for name, config in real.items():
        assert config.train.total_steps(9688) == (0 if "/base" in name else 111), name


@pytest.mark.parametrize("data", ["", "data: {heldout_share: 0.0}"])
def test_a_model_of_ones_own_says_what_it_trains_on(data, tmp_path):
    preset = write(tmp_path, "mine.yaml", f"run: {{directory: x}}\nmodel: {{pretrained: some/model}}\n{data}")
    assert refusal(preset) in ("data: is missing", "data.source: is missing")
    assert load(Config, preset, ["data.source=micro"]).data.source == "micro"


def test_a_method_is_the_same_at_every_size():
    def without(name: str, *sections: str) -> dict:
        return load(Config, name).model_dump(exclude=set(sections))

    parts = {method: {"method"} for method in ("golden", "self_play", "a1_no_white_box")}
    parts |= {"sft": {"method", "checkpoint"}, "a1_alpha25": {"rewards"}, "base": {"train"}}
    for method, expected in parts.items():
        for model in ("micro", "7b"):
            ours, a1 = (without(f"{model}/{name}", "run") for name in (method, "a1"))
            changed = {section for section in a1 if ours[section] != a1[section]}
            assert changed == expected, (model, method)


def test_a_new_model_may_have_any_name(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    for name in ("other", "14b", "micro", "0.5b", "7b-base"):
        (tmp_path / "models" / f"{name}.yaml").touch()
    monkeypatch.setattr(configs, "PARTS", tmp_path)
    assert configs.model_names() == ("micro", "0.5b", "7b-base", "14b", "other")


def test_every_method_has_a_preset_with_the_originals_choices_which_starts_from_its_like(presets):
    papers = {name for name in presets if name.endswith("_paper") and not name.startswith("micro/")}
    models = set(configs.model_names()) - set(configs.MICROS)
    plain = [name for name, config in presets.items() if config.hardware is None and name.partition("/")[0] in models]
    assert papers == {f"{name}_paper" for name in plain if name not in papers}
    plain, paper = (load(Config, f"7b/a1_from_sft{kind}_h100").model_dump() for kind in ("", "_paper"))
    assert (paper["test"]["start"], load(Config, "7b/sft_paper").run.directory) == ("runs/7b-paper-sft",) * 2
    differing = {
        (section, name)
        for section, keys in plain.items()
        if isinstance(keys, dict)
        for name in keys
        if keys[name] != paper[section][name]
    }
    assert differing == {
        ("run", "directory"),
        ("test", "start"),
        ("rewards", "repeats"),
        ("rewards", "junk"),
        ("sandbox", "script_seconds"),
        ("sandbox", "reference_names"),
        ("code", "optimizer"),
        ("test", "optimizer"),
        ("eval", "samples"),
        ("eval", "limits"),
    }


def test_a_preset_can_start_from_one_that_is_composed_by_its_name(tmp_path):
    preset = write(tmp_path, "mine.yaml", "compose: [3b/golden_v6e]\nmesh: {fsdp: 8}")
    config = load(Config, preset)
    assert (config.method.name, config.mesh.fsdp, config.run.directory) == ("golden", 8, "runs/3b-golden")


def test_a_variant_is_a_part_of_any_composed_preset_and_differs_from_it_in_nothing_else():
    for path in (PARTS / "variants").iterdir():
        changes = by_key(yaml.safe_load(path.read_text()))
        for preset, hardware in (("1.5b/a1", "_h100"), ("micro/a1", ""), ("7b/self_play", "_v5p")):
            name, model = f"{preset}_{path.stem}{hardware}", preset.partition("/")[0]
            plain, varied = (by_key(load(Config, each).model_dump()) for each in (preset + hardware, name))
            directory = plain["run.directory"].replace(model, f"{model}-{path.stem}", 1)
            assert varied == plain | changes | {"run.directory": directory}
            assert (name in preset_names()) == (preset == "micro/a1")


def test_every_shipped_file_is_a_preset_or_a_part_of_one():
    assert "micro/a1" in preset_names()
    for path in PRESETS.rglob("*.yaml"):
        name = path.relative_to(PRESETS).with_suffix("").as_posix()
        assert name in preset_names() or name.startswith(("parts/", "recipes/"))


def test_no_departure_is_on_by_default():
    """The paper's numbers are held by the page of fidelity."""
    config = load(Config, "micro/a1_paper")
    for grpo in (config.code.grpo, config.test.grpo):
        assert (grpo.loss, grpo.ratio, grpo.normalizer) == ("clipped", "token", "tokens")
        assert (grpo.importance, grpo.importance_cap, grpo.importance_floor) == ("token", None, 0.0)
        assert not grpo.mask_truncated and not grpo.skip_zero_advantage
    assert (config.method.name, config.rewards.passing, config.rewards.test_value) == ("a1", "fraction", "paper")
    assert not config.rollout.share_programs and not config.train.refill and not config.rewards.only_right


def test_later_parts_win_over_earlier_the_file_over_its_parts_and_overrides_over_all(tmp_path):
    write(tmp_path, "one.yaml", "steps: 1\ninner: {rate: 1.0, name: one}")
    write(tmp_path, "two.yaml", "steps: 2\ninner: {rate: 2.0}")
    preset = write(tmp_path, "top.yaml", "compose: [one.yaml, two.yaml]\nsteps: 7")
    assert load(Outer, preset) == Outer(steps=7, inner=Inner(rate=2.0, name="one"))
    assert load(Outer, preset, ["steps=8", "inner.name=x", "optional={}"]) == Outer(
        steps=8, inner=Inner(rate=2.0, name="x"), optional=Inner()
    )
    assert load(Outer, preset, ["optional={name: b}", "optional=null"]).optional is None


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("rollout.sample=4", "unknown key rollout.sample; did you mean rollout.samples?"),
        ("code.grpo.kl_coeff=0", "unknown key code.grpo.kl_coeff; did you mean code.grpo.kl_coef?"),
        (
            "rollout.samples=many",
            "rollout.samples: must be a valid integer, unable to parse string as an integer, not 'many'",
        ),
        ("rollout.samples=1", "rollout.samples: must be greater than or equal to 2, not 1"),
        ("rollout=3", "rollout: must be a valid dictionary or instance of RolloutConfig, not 3"),
        ("rewards.difficulty=hard", "rewards.difficulty: must be 'fraction' or 'any', not 'hard'"),
        ("model.pretrained=some/model", "set exactly one of model.pretrained and model.architecture"),
        ("model.architecture=null", "set exactly one of model.pretrained and model.architecture"),
        ("data.task=stream", "data.task=stream: its words are missing; also set model.architecture.words=stream"),
        ("prompts=chat", "prompts=chat needs the chat template of model.pretrained"),
        ("train.steps", "'train.steps' is not an override; write key=value"),
        ("=3", "'=3' is not an override"),
        ("train.steps=[1", "train.steps: '[1' is not a YAML value"),
        (
            "rollout.temperature=hot",
            "rollout.temperature: must be a valid number, unable to parse string as a number, not 'hot'",
        ),
        ("rollout.temperature=0", "rollout.temperature: must be greater than 0, not 0"),
        ("rollout.temperature=.inf", "rollout.temperature: must be a finite number, not inf"),
        ("rollout.top_p=1.5", "rollout.top_p: must be less than or equal to 1, not 1.5"),
        (
            "method.white_box=perhaps",
            "method.white_box: must be a valid boolean, unable to interpret input, not 'perhaps'",
        ),
        ("eval.datasets=one", "eval.datasets: must be a valid tuple, not 'one'"),
        ("run.directory=null", "run.directory: must be a valid string, not None"),
    ],
)
def test_a_wrong_override_is_one_line_that_names_the_key(override, line):
    assert line in refusal("micro/a1", override)


def test_a_missing_key_is_named(tmp_path):
    assert "run: is missing" in refusal(write(tmp_path, "empty.yaml", ""))


def test_a_preset_that_is_not_there_is_answered_with_those_that_are():
    assert refusal("micro/a2") == "no preset 'micro/a2'; did you mean micro/a1?"
    assert refusal("7b/goldn_v5e") == "no preset '7b/goldn_v5e'; did you mean 7b/golden_v5e?"
    assert refusal("nothing_like_it") == "no preset 'nothing_like_it'; `codea1 presets` lists them"
    assert refusal("mine/own.yaml") == "mine/own.yaml: no such file"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("steps: [1", "not YAML"),
        ("- 1", "a preset is a mapping of keys, not [1]"),
        ("compose: [top.yaml]", "compose each other in a circle"),
        ("compose: [missing]", "no preset 'missing'"),
        ("compose: 3", "compose: must be a list of presets"),
        ("compose: [1]", "compose: must be a list of presets"),
    ],
)
def test_a_file_that_is_no_preset_is_one_line(text, line, tmp_path):
    assert line in refusal(write(tmp_path, "top.yaml", text), schema=Outer)


def test_a_file_that_is_no_text_is_one_line(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"\xff\xfe\x00\x81")
    assert "weights.bin: not YAML" in refusal(str(tmp_path / "weights.bin"))


@pytest.mark.parametrize("word", ["yes", "true", "off"])
def test_a_boolean_is_not_a_number(word, tmp_path):
    preset = write(tmp_path, "preset.yaml", "steps: 4")
    assert "steps: " in (said := refusal(preset, f"steps={word}", schema=Outer)) and "is a boolean" in said
    assert "inner.rate: " in refusal(preset, f"inner.rate={word}", schema=Outer)
    assert "checkpoint.every: " in refusal("micro/a1", f"checkpoint.every={word}")


@pytest.mark.parametrize("name", ["h10:8", "v5e", "v5e:4x4x4", "h100:0", "H100:8", "h100:2x4", ""])
def test_a_typo_in_hardware_is_refused_with_the_configuration(name):
    line = refusal("1.5b/a1", f"hardware='{name}'")
    assert "hardware: " in line and f"{name} is not known hardware; known are " in line and "h100:8" in line
