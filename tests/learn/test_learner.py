import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from codea1_jax.config import GRPOConfig, OffloadConfig, OptimizerConfig, PackingConfig
from codea1_jax.learn import GRPO
from codea1_jax.learn.batch import Trajectory
from codea1_jax.learn.learner import Learner
from codea1_jax.learn.optimizer import frozen
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.attention import training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import Transformer, init_params, output_table

EOS = 1
MODEL = Transformer(Architecture(31, 16, 32, 2, 4, 2, 8, rope_theta=1e4))
SGD_LIKE = OptimizerConfig(learning_rate=1e-3, warmup_steps=0, schedule="constant", weight_decay=0.1)
PACKINGS = [
    PackingConfig(row_length=32, micro_batch_tokens=64),
    PackingConfig(row_length=32, micro_batch_tokens=4096),
    PackingConfig(row_length=8, micro_batch_tokens=8),
    PackingConfig(row_length=100, micro_batch_tokens=500, logit_chunk=7),
]


@pytest.fixture(scope="module")
def params():
    @jax.jit
    def perturbed(params):
        """Larger than at initialisation, so that attention and ratios are far from uniform."""
        keys = iter(jax.random.split(jax.random.key(1), len(jax.tree.leaves(params))))
        return jax.tree.map(lambda p: p + 0.2 * jax.random.normal(next(keys), p.shape), params)

    return perturbed(init_params(MODEL, jax.random.key(0)))


def make_groups(questions=4, samples=3, seed=0):
    """Ragged trajectories; the last question's advantages are all zero."""
    rng = np.random.default_rng(seed)

    def trajectory(prompt, advantage):
        completion = (*rng.integers(2, 31, rng.integers(0, 11)).tolist(), EOS)
        return Trajectory(prompt, completion, advantage)

    groups = []
    for question in range(questions):
        prompt = tuple(rng.integers(2, 31, rng.integers(1, 9)).tolist())
        zero = question == questions - 1
        groups.append([trajectory(prompt, 0.0 if zero else float(rng.normal())) for _ in range(samples)])
    return groups


@functools.cache
def learner(packing=PACKINGS[0], optimizer=SGD_LIKE, **grpo):
    return Learner(MODEL, GRPO(GRPOConfig(**grpo)), optimizer, packing, total_steps=10)


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def in_shapes(params):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), params)


def placed(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype, x.sharding), tree)


def kinds(tree):
    """Of memory."""
    return {leaf.sharding.memory_kind for leaf in jax.tree.leaves(tree)}


def kinds_of_number(tree):
    return {leaf.dtype for leaf in jax.tree.leaves(tree)}


def gradient_of(learner, params, groups, reference=None):
    batches = learner._pack(groups)
    if reference is not None:
        batches = learner._score(batches, reference, "reference_logprobs")
    tokens = sum(len(t.completion) for group in groups for t in group)
    return flat(learner._gradient(params, batches, float(tokens))[0])


@jax.jit
def padded_logprobs(params, tokens):
    """One sequence per row, padded on the right, with the softmax written out."""
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    hidden, _ = MODEL.apply(
        {"params": params}, tokens, positions, training_attention(Sight.within(jnp.zeros_like(tokens)))
    )
    logprobs = jax.nn.log_softmax(hidden @ output_table(params, MODEL.architecture).T)
    return jnp.take_along_axis(logprobs[:, :-1], tokens[:, 1:, None], axis=-1)[..., 0]


@jax.jit
def unpacked_gradient(params, reference, tokens, mask, advantages):
    """∇ of (Σ over tokens of -A·logπ + 0.5·k3) / tokens: what the objective amounts to at ratio 1."""

    def loss(params):
        logprobs = padded_logprobs(params, tokens)
        difference = padded_logprobs(reference, tokens) - logprobs
        k3 = jnp.exp(difference) - difference - 1
        return jnp.sum((-advantages[:, None] * logprobs + 0.5 * k3) * mask) / mask.sum()

    return jax.grad(loss)(params)


@pytest.fixture(scope="module")
def unpacked(params):
    """A reference policy, and the gradient of `make_groups()` computed without any packing."""
    reference = jax.tree.map(lambda p: p + 0.01, params)
    trajectories = [t for group in make_groups() for t in group]
    longest = max(len(t.prompt) + len(t.completion) for t in trajectories)
    tokens = np.zeros((len(trajectories), longest), np.int32)
    mask = np.zeros((len(trajectories), longest - 1), np.float32)
    for row, t in enumerate(trajectories):
        both = t.prompt + t.completion
        tokens[row, : len(both)] = both
        mask[row, len(t.prompt) - 1 : len(both) - 1] = 1
    advantages = np.array([t.advantage for t in trajectories], np.float32)
    return reference, flat(unpacked_gradient(params, reference, tokens, mask, advantages))


@pytest.mark.parametrize("packing", PACKINGS)
def test_the_gradient_is_that_of_unpacked_sequences_whatever_the_packing(params, unpacked, packing):
    reference, truth = unpacked
    ours = gradient_of(learner(packing, kl_coef=0.5), params, make_groups(), reference)
    assert np.abs(truth).max() > 0.1
    np.testing.assert_allclose(ours, truth, atol=1e-5)


def test_skipping_zero_advantages_leaves_the_gradient_as_it_is(params):
    groups = make_groups()
    every, some = learner(kl_coef=0), learner(kl_coef=0, skip_zero_advantage=True)
    computed = [sum(batch.mask.sum() for batch in each._pack(groups)) for each in (every, some)]
    assert computed[1] < computed[0]
    np.testing.assert_allclose(gradient_of(some, params, groups), gradient_of(every, params, groups), atol=1e-6)


def test_two_mini_batches_use_the_policy_before_the_step_as_the_old_one_and_count_as_one_step(params):
    groups = make_groups()
    once, twice = learner(kl_coef=0), learner(kl_coef=0, mini_batch_questions=2)
    first, single = once.update(once.init(params), None, groups)
    second, double = twice.update(twice.init(params), None, groups)
    assert single["ratio_mean"] == 1
    assert abs(double["ratio_mean"] - 1) > 1e-4
    assert (first.step, first.opt_state[1].count) == (1, 1)
    assert (second.step, second.opt_state[1].count) == (1, 2)


def test_metrics_describe_the_step(params):
    groups = [
        [Trajectory((3, 4), (5, EOS), 1.0), Trajectory((3, 4), (5, 6, 7, 8), -1.0, truncated=True)],
        [Trajectory((9,), (EOS,), 0.0), Trajectory((9,), (EOS,), 0.0)],
    ]
    ours = learner(kl_coef=0.5)
    # Without its last norm the policy is uniform, so the entropy is known.
    uniform = params | {"norm": {"weight": jnp.zeros_like(params["norm"]["weight"])}}
    _, metrics = ours.update(ours.init(uniform), uniform, groups)
    assert metrics["loss"] == pytest.approx((-1 * 2 + 1 * 4) / 8, abs=1e-6)
    assert metrics["entropy"] == pytest.approx(np.log(31), abs=1e-5)
    assert metrics["kl"] == 0 and metrics["ratio_mean"] == 1
    assert metrics["response_tokens"] == 2 and metrics["truncated"] == 0.25
    assert metrics["zero_variance"] == 0.5
    assert metrics["grad_norm"] > 0
    assert metrics["clip_fraction_low"] == metrics["clip_fraction_high"] == metrics["clip_fraction_dual"] == 0


def test_responses_that_were_cut_off_teach_nothing_when_masked(params):
    whole = make_groups()
    cut = [[*group, Trajectory(group[0].prompt, (5, 6, 7), 2.0, truncated=True)] for group in whole]
    masked, plain = learner(kl_coef=0, mask_truncated=True), learner(kl_coef=0)
    (state, metrics), (expected, _) = (
        each.update(each.init(params), None, groups) for each, groups in ((masked, cut), (plain, whole))
    )
    np.testing.assert_allclose(flat(state.params), flat(expected.params), atol=1e-6)
    assert metrics["truncated"] == 0.25


@pytest.mark.parametrize(
    "settings",
    [
        {"ratio": "sequence", "importance_cap": 1.5},
        {"importance": "icepop", "importance_cap": 1.5, "importance_floor": 0.5, "normalizer": "constant"},
    ],
    ids=lambda settings: "-".join(str(value) for value in settings.values() if isinstance(value, str)),
)
def test_sequence_ratios_and_importance_weights_do_not_depend_on_the_packing(params, settings):
    """Against an old policy at which ratios are not 1; a third of the tokens has no logprob of a sampler."""
    rng = np.random.default_rng(0)
    groups = [
        [replace(t, logprobs=tuple(rng.normal(-3.0, 1.0, len(t.completion)))) for t in group[:-1]] + group[-1:]
        for group in make_groups()
    ]
    old = jax.tree.map(lambda p: p + 0.02 * jnp.sin(jnp.arange(p.size)).reshape(p.shape), params)

    def gradient(packing):
        ours = learner(packing, kl_coef=0, **settings)
        batches = ours._score(ours._pack(groups), old, "old_logprobs")
        return ours._gradient(params, batches, ours.objective.normalizer(groups))

    expected, found = gradient(PACKINGS[1]), gradient(PACKINGS[2])
    assert abs(expected.sums.ratio / expected.sums.tokens - 1) > 1e-3
    np.testing.assert_allclose(flat(found.gradient), flat(expected.gradient), atol=1e-5)
    np.testing.assert_allclose(flat(found.sums), flat(expected.sums), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("skip", [False, True])
def test_a_step_of_zero_advantages_leaves_the_policy_and_its_moments_as_they_are(params, skip):
    """Momentum of the step before it, and weight decay, would move the policy."""
    ours = learner(kl_coef=0, skip_zero_advantage=skip)
    state, _ = ours.update(ours.init(params), None, make_groups())
    before = flat((state.params, state.opt_state)).copy()
    state, metrics = ours.update(state, None, [[Trajectory((3,), (4, EOS), 0.0)] * 2])
    np.testing.assert_array_equal(flat((state.params, state.opt_state)), before)
    assert metrics["grad_norm"] == 0 and metrics["zero_variance"] == 1 and state.step == 2


def test_the_callers_parameters_survive_the_donated_updates(params):
    before = flat(params).copy()
    ours = learner(kl_coef=0.5)
    state = ours.init(params)
    for _ in range(2):
        state, metrics = ours.update(state, params, make_groups())
    np.testing.assert_array_equal(flat(params), before)
    assert metrics["kl"] > 0


def test_a_policy_s_own_reference_is_as_it_started(params):
    ours = Learner(MODEL, GRPO(GRPOConfig(kl_coef=0.5), own_reference=True), SGD_LIKE, PACKINGS[0], total_steps=10)
    state, kl = ours.init(params), []
    for _ in range(2):
        state, metrics = ours.update(state, None, make_groups())
        kl.append(metrics["kl"])
    assert kl[0] == 0 < kl[1]
    np.testing.assert_array_equal(flat(state.reference), flat(params))


def test_what_waits_in_host_memory_changes_no_number(params):
    def steps(offload):
        ours = Learner(
            MODEL,
            GRPO(GRPOConfig(kl_coef=0.5, mini_batch_questions=2), own_reference=True),
            SGD_LIKE,
            PACKINGS[0],
            total_steps=10,
            offload=offload,
        )
        state = ours.init(params)
        assert placed(ours.abstract(in_shapes(params))) == placed(state)
        for _ in range(3):
            state, metrics = ours.update(state, None, make_groups())
        return state, metrics

    (there, figures), (here, expected) = steps(OffloadConfig(optimizer=True)), steps(OffloadConfig())
    assert kinds(there.opt_state) == {"pinned_host"}
    assert kinds(there.params) == kinds(here) == {"device"}
    assert figures == expected
    np.testing.assert_array_equal(flat(there), flat(here))


def test_a_reference_in_the_type_that_is_computed_with_says_the_same(params):
    ours = Learner(
        MODEL.clone(dtype=jnp.bfloat16), GRPO(GRPOConfig(kl_coef=0.5)), SGD_LIKE, PACKINGS[1], total_steps=10
    )
    small = frozen(params, jnp.bfloat16)
    assert kinds_of_number(small) == {jnp.dtype("bfloat16")}

    def scored(reference):
        (batch,) = ours._score(ours._pack(make_groups()), reference, "reference_logprobs")
        return batch.reference_logprobs

    np.testing.assert_array_equal(scored(small), scored(params))


def test_a_kl_term_without_a_reference_is_refused(params):
    ours = learner(kl_coef=0.5)
    with pytest.raises(ValueError, match="reference"):
        ours.update(ours.init(params), None, make_groups())


def test_a_gradient_that_is_not_finite_stops_the_run(params):
    ours = learner(kl_coef=0)
    broken = jax.tree.map(lambda p: p * jnp.inf, params)
    with pytest.raises(FloatingPointError):
        ours.update(ours.init(broken), None, make_groups())
