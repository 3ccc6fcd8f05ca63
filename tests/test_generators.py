"""What a user names as a model writes programs and tests."""

import jax
import jax.numpy as jnp
import pytest

from codea1_jax.assemble.generators import make_generator
from codea1_jax.evals.generators import TestAsk
from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.policy import Policy, save_policy
from codea1_jax.models.qwen2 import Qwen2, init_params
from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.rollout import Sampling
from codea1_jax.run.config import ConfigError
from data_pipeline import Problem

ONE = Problem("one", "Add one.", "def f(x):\n    return x + 1", "f", ())
TWO = Problem("two", "Add two.", "def f(x):\n    return x + 2", "f", ())
SAMPLING = Sampling(8, 1.0)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    tokenizer = micro_tokenizer(["def ", "return "])
    shape = Qwen2Config(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        intermediate_size=32,
        num_layers=1,
        num_heads=2,
        num_kv_heads=1,
        head_dim=8,
    )
    policy = Policy(Qwen2(shape, jnp.dtype("float32"), jnp.dtype("float32"), "none"), tokenizer)
    path = tmp_path_factory.mktemp("model")
    save_policy(path, policy, init_params(policy.model, jax.random.key(0)))
    return path


def test_a_models_directory_writes_the_same_for_a_problem_whatever_else_is_asked(directory):
    generator = make_generator(str(directory), "code", None, "", SAMPLING, seed=3)
    both = dict(generator.programs([ONE, TWO], 2))
    assert [len(both[i]) for i in (0, 1)] == [2, 2]
    assert dict(generator.programs([TWO], 2))[0] == both[1]
    assert len({*both[0], *both[1]}) == 4
    other = make_generator(str(directory), "code", None, "", SAMPLING, seed=4)
    assert dict(other.programs([TWO], 2))[0] != both[1]
    ((suite,),) = dict(generator.tests([TestAsk(ONE, ONE.solution, ())], 1)).values()
    assert suite == ()  # random weights write no test
    assert list(generator.programs([], 2)) == []


def test_what_is_no_model_is_bad_input(tmp_path):
    with pytest.raises((ConfigError, OSError)):
        make_generator(str(tmp_path / "none"), "code", None, "", SAMPLING, seed=0)
