"""A Code LLM and a Test LLM that are different models: another family, and half as wide."""

import signal
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest
from tiny_run import SETTINGS, assert_same_end, without_times

from codea1_jax.common.errors import Interrupted, UserError
from codea1_jax.common.files import read_lines
from codea1_jax.config import Config, load
from codea1_jax.learn import Learner
from codea1_jax.models.decoder import LORA_A
from codea1_jax.models.policy import pretrained_policy
from codea1_jax.models.stored import flatten
from codea1_jax.run.rundir import RunDir
from codea1_jax.training.convert import convert, open_policy
from codea1_jax.training.judges import make_judge
from codea1_jax.training.loop import train
from codea1_jax.training.parts import Training, make_training
from codea1_jax.training.start import resume, start
from codea1_jax.training.state import State

SMALL = "test.model.architecture={family: llama, hidden_size: 16, intermediate_size: 32}"
OVERRIDES = [*SETTINGS, SMALL, "test.temperature=0.8", "warm_start=null", "eval.every=0", "train.steps=3"]


def config_of(directory: Path, *more: str) -> Config:
    return load(Config, "micro/a1_paper", [*OVERRIDES, f"run.directory={directory}", *more])


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    config = config_of(tmp_path_factory.mktemp("unused"))
    with make_judge(config.sandbox) as judge:
        yield make_training(config, judge)


def run_in(directory: Path, training: Training, *, again: bool = False) -> State:
    config = config_of(directory)
    with RunDir(directory, config, config.checkpoint, resume=again) as run:
        return train(training, start(training) if run.resume_step is None else resume(training, run), run)


@pytest.fixture(scope="module")
def straight(training: Training, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, State]:
    directory = tmp_path_factory.mktemp("straight")
    return directory, run_in(directory, training)


def test_each_policy_has_the_shape_of_its_own_model_and_the_second_one_its_own_reference(training, straight):
    first, last = start(training), straight[1]
    for name, width in (("code", 32), ("test", 16)):
        assert training.policies.named[name].model.architecture.hidden_size == width
        before, after = (jax.tree.leaves(state.policies[name].params) for state in (first, last))
        assert any((a != b).any() for a, b in zip(before, after, strict=True))
    assert training.policies.named["test"].model.architecture.family == "llama"
    assert training.policies.reference == "code"
    own = last.policies["test"].reference
    assert own is not None and last.policies["code"].reference is None
    expected = jax.tree.leaves(first.policies["test"].params)
    dtype = training.policies.named["test"].model.dtype
    for kept, initial in zip(jax.tree.leaves(own), expected, strict=True):
        np.testing.assert_array_equal(kept, initial.astype(dtype))


def test_a_run_of_two_models_that_is_stopped_ends_the_same_bit_for_bit(training, straight, tmp_path):
    update, updates = Learner.update, []

    def stopped_in_the_third(*arguments, **named):
        updates.append(arguments)
        if len(updates) == 3:
            signal.raise_signal(signal.SIGINT)
        return update(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "update", stopped_in_the_third)
        with pytest.raises(Interrupted, match="SIGINT"):
            run_in(tmp_path, training)
    run_in(tmp_path, training, again=True)
    assert without_times(tmp_path) == without_times(straight[0])
    assert_same_end(straight[0] / "checkpoints", tmp_path / "checkpoints", 3)


def test_each_policy_is_sampled_and_scored_at_its_own_temperature(training, straight):
    games = training.games
    assert {role: games.samplers[role].sampling.temperature for role in games.roles} == {"code": 0.5, "test": 0.8}
    steps = [line for line in read_lines(straight[0] / "metrics.jsonl") if line["kind"] == "train"]
    for name in ("code", "test"):  # a learner that took another temperature would be off by tenths of a nat
        assert max(line[f"{name}/rollout_difference_max"] for line in steps) < 1e-4


@pytest.mark.parametrize(("name", "family", "width"), [("code", "qwen2", 32), ("test", "llama", 16)])
def test_each_policy_is_exported_as_its_own_model(straight, tmp_path, name, family, width):
    convert(open_policy(str(straight[0]), name), tmp_path / "out", "hf", None, 10**9)
    architecture = pretrained_policy(tmp_path / "out").model.architecture
    assert (architecture.family, architecture.hidden_size) == (family, width)


@pytest.mark.long
def test_adapters_of_two_models_are_added_to_a_base_each(tmp_path):
    config = config_of(tmp_path / "run", "lora.rank=4", "test.lora.rank=2", "train.steps=1", "checkpoint.every=1")
    with make_judge(config.sandbox) as judge:
        training = make_training(config, judge)
        with RunDir(tmp_path / "run", config, config.checkpoint, resume=False) as run:
            state = train(training, start(training), run)
        with RunDir(tmp_path / "run", config, config.checkpoint, resume=True) as run:
            resumed = resume(training, run)
    assert state.base_digests == resumed.base_digests and len(set(state.base_digests.values())) == 2
    for name, width, rank in (("code", 32, 4), ("test", 16, 2)):
        assert resumed.bases[name]["embed_tokens"].shape[1] == width
        adapters = flatten(state.policies[name].params)
        assert {array.shape[-1] for path, array in adapters.items() if path[-1] == LORA_A} == {rank}
        for trees in ((state.bases[name], resumed.bases[name]), (state.policies[name], resumed.policies[name])):
            for before, after in zip(*map(jax.tree.leaves, trees), strict=True):
                np.testing.assert_array_equal(before, after)
        convert(open_policy(str(tmp_path / "run"), name), tmp_path / name, "hf", None, 10**9)
        assert pretrained_policy(tmp_path / name).model.architecture.hidden_size == width


def test_an_own_model_takes_from_the_common_one_what_it_does_not_set():
    seven = ["test.model.pretrained=Qwen/Qwen2.5-Coder-1.5B-Instruct", "model.remat=full"]
    config = load(Config, "7b/a1", seven)
    assert config.models["code"].pretrained == "Qwen/Qwen2.5-Coder-7B-Instruct"
    assert config.models["test"].pretrained == "Qwen/Qwen2.5-Coder-1.5B-Instruct"
    assert {model.remat for model in config.models.values()} == {"full"}
    micro = load(Config, "micro/a1", [SMALL])
    assert micro.models["test"].architecture is not None and micro.model.architecture is not None
    assert micro.models["test"].architecture.num_layers == micro.model.architecture.num_layers
    assert Config.model_validate(config.model_dump(mode="json")) == config


def test_a_policy_takes_what_its_own_adapters_and_sampling_do_not_set():
    own = ["lora.alpha=8", "test.lora.rank=64", "test.temperature=0.7", "code.top_p=0.9", "rollout.temperature=1.2"]
    config = load(Config, "1.5b/a1", own)
    code, test = config.lora_of("code"), config.lora_of("test")
    assert code is not None and (code.rank, code.alpha) == (16, 8)
    assert test is not None and (test.rank, test.alpha) == (64, 8)
    assert (config.drawn_at("code"), config.drawn_at("test")) == ((1.2, 0.9), (0.7, 1.0))
    assert Config.model_validate(config.model_dump(mode="json")) == config
    with pytest.raises(UserError, match="set lora as well"):
        load(Config, "1.5b/a1", ["test.lora.rank=64"])


def test_a_method_of_one_policy_takes_no_model_for_another():
    with pytest.raises(UserError, match=r"test\.model: method\.name=self_play trains no policy of that name"):
        load(Config, "micro/self_play", [SMALL])
