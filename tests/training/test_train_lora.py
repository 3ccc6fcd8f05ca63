"""A run that trains adapters over one frozen base: what it saves, how it continues, and what is exported of it."""

import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tiny_run import SETTINGS, saved

from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, load
from codea1_jax.models.lora import attach, merge
from codea1_jax.models.weights import load_params
from codea1_jax.run.rundir import RunDir
from codea1_jax.training.convert import convert, open_policy
from codea1_jax.training.judges import make_judge
from codea1_jax.training.loop import train
from codea1_jax.training.parts import Training, make_training
from codea1_jax.training.policies import InitialWeights
from codea1_jax.training.start import resume, start
from codea1_jax.training.state import State, pack_state
from codea1_jax.training.step import params

# Everything that moves or is recreated between steps: a separate reference, moments in host memory.
LORA = (
    "lora={rank: 2, alpha: 8}",
    "offload.optimizer=true",
    "code.grpo={kl_coef: 0, entropy_coef: 0.01, mini_batch_questions: 2}",
    "test.grpo={entropy_coef: 0.01, reference_every: 1, mini_batch_questions: 2}",
    "train.steps=2",
    "checkpoint.every=1",
    "eval.every=0",
)


def configured(directory: Path | str) -> Config:
    return load(Config, "micro/a1_paper", [*SETTINGS, *LORA, f"run.directory={directory}"])


def run_to_the_end(directory: Path, config: Config, training: Training, *, again: bool = False) -> State:
    with RunDir(directory, config, config.checkpoint, resume=again) as run:
        return train(training, resume(training, run) if again else start(training), run)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("adapters") / "run"
    config = configured(directory)
    with make_judge(config.sandbox) as judge:
        training = make_training(config, judge)
        yield directory, training, run_to_the_end(directory, config, training)


def bytes_of(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def test_both_policies_learn_adapters_of_their_own_and_the_base_stays(trained):
    _, training, state = trained
    first = start(training)
    assert bytes_of(state.bases) == bytes_of(first.bases)
    spoken = params(training, state)
    for name in ("code", "test"):
        moved = jax.tree.map(lambda x, y: (x != y).any(), state.policies[name].params, first.policies[name].params)
        assert all(jax.tree.leaves(moved))
        assert spoken[name]["embed_tokens"] is state.bases[name]["embed_tokens"]
    assert bytes_of(state.policies["code"].params) != bytes_of(state.policies["test"].params)


def test_a_checkpoint_holds_adapters_their_moments_and_the_fingerprint_of_the_base(trained):
    directory, _, state = trained
    arrays, document = saved(directory / "checkpoints", 2)
    named = {name for name in arrays if "step" not in name and "count" not in name}
    assert named and all("lora_a" in name or "lora_b" in name for name in named)
    assert {name.split("'")[1] for name in named} == {"code", "test"}
    assert document["base"] == state.base_digests and {len(each) for each in state.base_digests.values()} == {16}


def test_a_run_that_goes_on_ends_in_the_same_state_bit_for_bit(trained, tmp_path):
    directory, training, state = trained
    shutil.copytree(directory, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "2")
    arrays, document = pack_state(run_to_the_end(tmp_path / "run", configured(directory), training, again=True))
    others, expected = pack_state(state)
    assert bytes_of(arrays) == bytes_of(others)
    assert document == expected
    assert {leaf.sharding.memory_kind for leaf in jax.tree.leaves(arrays["code"].opt_state)} == {"pinned_host"}


def test_an_exported_policy_is_the_merged_one(trained, tmp_path):
    directory, training, state = trained
    source = open_policy(str(directory), "code")
    convert(source, tmp_path / "hf", "hf", None, 10**9)
    exported = load_params(tmp_path / "hf", source.policy.model)
    merged = merge(attach(training.policies.learning.lora["code"], state.bases["code"], state.policies["code"].params))
    assert bytes_of(exported) == bytes_of(merged)
    assert bytes_of(exported) != bytes_of(state.bases["code"])


def test_adapters_are_never_put_on_another_base(trained, monkeypatch):
    directory, training, state = trained
    other = jax.tree.map(lambda x: x * 2, state.bases["code"])
    monkeypatch.setattr(InitialWeights, "params", lambda *_: other)
    config = configured(directory)
    wrong = pytest.raises(UserError, match=r"lora: the warm start in \S+ is not what this run's adapters were trained")
    with wrong, RunDir(directory, config, config.checkpoint, resume=True) as run:
        resume(training, run)
