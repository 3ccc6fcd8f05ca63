"""What counts as compiled: what XLA made, and neither a second call nor what the cache of programs held."""

import random

import jax
import jax.numpy as jnp
import pytest

from codea1_jax.models.compiled import newly_compiled


@pytest.fixture
def cache(tmp_path):
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update(names[0], str(tmp_path))
    jax.config.update(names[1], 0.0)
    jax.experimental.compilation_cache.compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    jax.experimental.compilation_cache.compilation_cache.reset_cache()


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
