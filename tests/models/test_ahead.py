"""What a program is compiled for ahead of its call is what the call brings; what counts as compiled."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from codea1_jax.models.ahead import CompileAhead, Program, shapes_of
from codea1_jax.models.compiled import newly_compiled


def test_arrays_of_the_host_are_of_the_types_that_a_call_takes_them_as():
    shapes = shapes_of({"whole": np.arange(3), "real": np.zeros(2), "there": jnp.zeros(2, jnp.bfloat16)})
    assert {name: x.dtype.name for name, x in shapes.items()} == {
        "whole": "int32",
        "real": "float32",
        "there": "bfloat16",
    }


def test_a_call_of_what_was_compiled_ahead_traces_nothing():
    traced = []

    @jax.jit
    def program(x):
        traced.append(x.shape)
        return x + 1

    ahead, argument = CompileAhead(), np.arange(3)
    for _ in range(2):
        ahead.start([Program("gradient", (3,), program, (), (shapes_of(argument),))])
    ahead.wait()
    assert traced == [(3,)]
    assert program(argument).tolist() == [1, 2, 3] and traced == [(3,)]


@pytest.fixture
def cache(tmp_path):
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update(names[0], str(tmp_path))
    jax.config.update(names[1], 0.0)
    compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_a_program_counts_once_and_not_when_it_is_read_from_the_cache(cache):
    x, factor = jnp.ones(3), random.random()

    def counted(function):
        newly_compiled()
        jax.block_until_ready(function(x))
        return newly_compiled()

    first, again = (jax.jit(lambda x: x * factor) for _ in range(2))
    made = counted(first)
    assert made["compiled/programs"] == 1 and made["compiled/seconds"] > 0
    assert counted(first) == counted(again) == {"compiled/programs": 0, "compiled/seconds": 0}
