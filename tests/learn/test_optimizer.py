from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from codea1_jax.config import OptimizerConfig
from codea1_jax.learn.optimizer import apply_gradient, initial_state, learning_rate, make_optimizer


def test_the_rate_rises_over_the_warm_up_and_falls_to_zero_after_the_last_step():
    config = OptimizerConfig(learning_rate=2.0, warmup_steps=4)
    rates = [float(learning_rate(step, config, 44)) for step in range(45)]
    np.testing.assert_allclose(rates[:5], [0.5, 1.0, 1.5, 2.0, 2.0])
    np.testing.assert_allclose(rates[24], 1.0, atol=1e-6)
    assert rates[44] == pytest.approx(0, abs=1e-6)
    assert all(late < early for early, late in pairwise(rates[4:]))


def test_the_originals_warm_up_begins_at_zero_and_ends_one_step_later():
    config = OptimizerConfig(learning_rate=2.0, warmup_steps=4, warmup_from_zero=True)
    ours = config.model_copy(update={"warmup_from_zero": False})
    rates = [float(learning_rate(step, config, 44)) for step in range(12)]
    assert rates[:5] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert rates[4:] == [float(learning_rate(step, ours, 44)) for step in range(4, 12)]
    constant = config.model_copy(update={"schedule": "constant"})
    assert [float(learning_rate(step, constant, 44)) for step in (0, 3, 4, 9)] == [0.0, 1.5, 2.0, 2.0]
    assert float(learning_rate(0, constant.model_copy(update={"warmup_steps": 0}), 44)) == 2.0


def test_a_short_run_warms_up_in_a_tenth_of_its_steps_and_the_papers_in_ten():
    def peaks(total):
        rates = [float(learning_rate(step, OptimizerConfig(learning_rate=1.0), total)) for step in range(total)]
        return rates.index(1.0)

    assert (peaks(11), peaks(60), peaks(111), peaks(1000)) == (1, 5, 9, 9)


def test_updates_equal_adamw_written_out():
    """Two updates of clipped AdamW (arXiv 1711.05101, algorithm 2) in numpy."""
    config = OptimizerConfig(weight_decay=0.1, clip_norm=1.0)
    optimizer = make_optimizer(config)
    x = np.array([1.0, -2.0, 3.0])
    m, v, rate = np.zeros(3), np.zeros(3), 0.01
    state = initial_state({"x": jnp.asarray(x, jnp.float32)}, optimizer)
    for t, gradient in enumerate([np.array([3.0, 4.0, 0.0]), np.array([0.1, -0.2, 0.3])], start=1):
        state, norm = apply_gradient(state, {"x": jnp.asarray(gradient, jnp.float32)}, optimizer, jnp.float32(rate))
        assert norm == pytest.approx(np.linalg.norm(gradient), rel=1e-6)
        g = gradient / max(1.0, np.linalg.norm(gradient))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        step = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        x = x - rate * (step + 0.1 * x)
        np.testing.assert_allclose(state.params["x"], x, rtol=1e-5)


def test_a_state_owns_its_arrays():
    params = {"x": jnp.ones(3)}
    state = initial_state(params, make_optimizer(OptimizerConfig()))
    jax.jit(lambda s: jax.tree.map(lambda x: x + 1, s), donate_argnums=0)(state)
    np.testing.assert_array_equal(params["x"], np.ones(3))
