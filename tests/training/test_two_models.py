"""A Code LLM and a Test LLM that are different models, whole or with adapters: trained, stopped, resumed, exported."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from interrupted_run import interrupted_after, train_from
from tiny_run import SETTINGS, assert_same_end, saved, without_times

from codea1_jax.common.errors import Interrupted, UserError
from codea1_jax.common.files import read_lines
from codea1_jax.config import Config, load
from codea1_jax.models.decoder import LORA_A, flatten
from codea1_jax.models.lora import attach, merge
from codea1_jax.models.policy import pretrained_policy
from codea1_jax.models.weights import load_params
from codea1_jax.run.rundir import RunDir
from codea1_jax.training.convert import convert, open_policy
from codea1_jax.training.parts import Training, make_judge, make_training
from codea1_jax.training.policies import InitialWeights
from codea1_jax.training.start import resume, start
from codea1_jax.training.state import State
from codea1_jax.training.step import params

NAMES = ("code", "test")
WIDTHS = {"code": 32, "test": 16}
SMALL = "test.model.architecture={family: llama, hidden_size: 16, intermediate_size: 32}"
OVERRIDES = (*SETTINGS, SMALL, "test.temperature=0.8", "warm_start=null", "eval.every=0", "train.steps=3")
# Everything that moves or is recreated between steps: moments in host memory.
LORA = (
    "lora={rank: 4, alpha: 8}",
    "offload.optimizer=true",
    "code.grpo={kl_coef: 0, entropy_coef: 0.01, mini_batch_questions: 2}",
    "test.grpo={entropy_coef: 0.01, mini_batch_questions: 2}",
)


@dataclass(frozen=True)
class Trained:
    """A run that nobody stopped."""

    config: Config
    training: Training
    directory: Path
    first: State
    last: State

    def opened(self, directory: Path, *, again: bool = False) -> RunDir:
        return RunDir(directory, self.config, self.config.checkpoint, resume=again)

    def stopped_and_resumed(self, directory: Path) -> Path:
        """The same run, stopped after its first step."""
        with interrupted_after(1), pytest.raises(Interrupted, match="SIGINT"), self.opened(directory) as run:
            train_from(run, self.training)
        with self.opened(directory, again=True) as run:
            assert run.resume_step == 1
            train_from(run, self.training)
        return directory


def trained_with(directory: Path, *overrides: str) -> Iterator[Trained]:
    config = load(Config, "micro/a1_paper", [*OVERRIDES, *overrides, f"run.directory={directory}"])
    with make_judge(config.sandbox) as judge:
        training = make_training(config, judge)
        with RunDir(directory, config, config.checkpoint, resume=False) as run:
            last = train_from(run, training)
        yield Trained(config, training, directory, start(training), last)


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    yield from trained_with(tmp_path_factory.mktemp("adapters") / "run", *LORA)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    yield from trained_with(tmp_path_factory.mktemp("whole") / "run")


def bytes_of(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def test_both_policies_learn_adapters_of_their_own_and_their_bases_stay(adapted):
    first, last = adapted.first, adapted.last
    assert bytes_of(last.bases) == bytes_of(first.bases)
    sampled = params(adapted.training, last)
    for name in NAMES:
        assert last.bases[name]["embed_tokens"].shape[1] == WIDTHS[name]
        assert sampled[name]["embed_tokens"] is last.bases[name]["embed_tokens"]
        adapters = flatten(last.policies[name].params)
        assert {array.shape[-1] for path, array in adapters.items() if path[-1] == LORA_A} == {4}
        moved = jax.tree.map(lambda x, y: (x != y).any(), last.policies[name].params, first.policies[name].params)
        assert all(jax.tree.leaves(moved))


def test_a_checkpoint_holds_adapters_their_moments_and_the_fingerprints_of_the_bases(adapted):
    arrays, document = saved(adapted.directory / "checkpoints", 3)
    named = {name for name in arrays if "step" not in name and "count" not in name}
    assert named and all("lora_a" in name or "lora_b" in name for name in named)
    assert {name.split("'")[1] for name in named} == set(NAMES)
    assert document["base"] == adapted.last.base_digests
    assert len(set(adapted.last.base_digests.values())) == 2


def test_adapters_start_where_those_of_another_run_ended(adapted, tmp_path):
    def begun(*more: str) -> State:
        given = (*OVERRIDES, *LORA, f"code.start={adapted.directory}", *more, f"run.directory={tmp_path}")
        with make_judge(adapted.config.sandbox) as judge:
            return start(make_training(load(Config, "micro/a1_paper", given), judge))

    state = begun()
    assert bytes_of(state.policies["code"].params) == bytes_of(adapted.last.policies["code"].params)
    assert bytes_of(state.policies["test"].params) == bytes_of(adapted.first.policies["test"].params)
    assert bytes_of(state.policies["code"].opt_state) == bytes_of(adapted.first.policies["code"].opt_state)
    wrong = {"run.seed=1": "another base", "lora.rank=2": "this run's lora", "code.grpo.kl_coef=1": "kl_coef=0"}
    for more, reason in wrong.items():
        with pytest.raises(UserError, match=reason):
            begun(more)


def test_a_run_of_adapters_that_is_stopped_ends_in_the_same_state_bit_for_bit(adapted, tmp_path):
    directory = adapted.stopped_and_resumed(tmp_path)
    assert without_times(directory) == without_times(adapted.directory)
    assert_same_end(directory / "checkpoints", adapted.directory / "checkpoints", 3)
    moments = jax.tree.leaves(adapted.last.policies["code"].opt_state)
    assert {leaf.sharding.memory_kind for leaf in moments} == {"pinned_host"}


@pytest.mark.parametrize(("name", "family"), [("code", "qwen2"), ("test", "llama")])
def test_an_exported_policy_is_the_merged_one(adapted, tmp_path, name, family):
    source, state = open_policy(str(adapted.directory), name), adapted.last
    convert(source, tmp_path / "hf")
    architecture = pretrained_policy(tmp_path / "hf").model.architecture
    assert (architecture.family, architecture.hidden_size) == (family, WIDTHS[name])
    exported = load_params(tmp_path / "hf", source.policy.model)
    lora = adapted.training.policies.learning.config.lora
    assert bytes_of(exported) == bytes_of(merge(attach(lora, state.bases[name], state.policies[name].params)))
    assert bytes_of(exported) != bytes_of(state.bases[name])


def test_adapters_are_never_put_on_another_base(adapted, monkeypatch):
    other = jax.tree.map(lambda x: x * 2, adapted.last.bases["code"])
    monkeypatch.setattr(InitialWeights, "params", lambda *_: other)
    wrong = pytest.raises(UserError, match=r"lora: the warm start in \S+ is not what this run's adapters were trained")
    with wrong, adapted.opened(adapted.directory, again=True) as run:
        resume(adapted.training, run)


def test_each_policy_is_sampled_and_scored_at_its_own_temperature(adapted):
    games = adapted.training.games
    assert {role: games.samplers[role].sampling.temperature for role in games.roles} == {"code": 0.5, "test": 0.8}
    steps = [line for line in read_lines(adapted.directory / "metrics.jsonl") if line["kind"] == "train"]
    for name in NAMES:  # a learner that took another temperature would be off by tenths of a nat
        assert max(line[f"{name}/rollout_difference_max"] for line in steps) < 1e-4


@pytest.mark.long
def test_the_second_model_has_its_own_reference_and_a_stopped_run_ends_the_same(whole, tmp_path):
    first, last = whole.first, whole.last
    for name in NAMES:
        assert whole.training.policies.named[name].model.architecture.hidden_size == WIDTHS[name]
        assert bytes_of(first.policies[name].params) != bytes_of(last.policies[name].params)
    assert whole.training.policies.reference == "code"
    own = last.policies["test"].reference
    assert own is not None and last.policies["code"].reference is None
    dtype = whole.training.policies.named["test"].model.dtype
    assert bytes_of(own) == bytes_of(jax.tree.map(lambda x: x.astype(dtype), first.policies["test"].params))
    directory = whole.stopped_and_resumed(tmp_path)
    assert without_times(directory) == without_times(whole.directory)
    assert_same_end(whole.directory / "checkpoints", directory / "checkpoints", 3)


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


def test_a_policy_takes_what_its_own_sampling_does_not_set():
    own = ["test.temperature=0.7", "code.top_p=0.9", "rollout.temperature=1.2"]
    config = load(Config, "1.5b/a1", own)
    assert (config.sampling_of("code"), config.sampling_of("test")) == ((1.2, 0.9), (0.7, 1.0))
    assert Config.model_validate(config.model_dump(mode="json")) == config
