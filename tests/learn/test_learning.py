"""Sampler, rewards, advantages and learner together: what is rewarded is what the policy comes to say."""

import jax
import pytest
from capacities import for_slots

from codea1_jax.config import Config, GRPOConfig, OptimizerConfig, PackingConfig, load
from codea1_jax.learn import GRPO, Learner, Trajectory
from codea1_jax.learn.advantages import group_advantages
from codea1_jax.learn.learning import Learning
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Transformer, init_params
from codea1_jax.rollout import Request, Sampler, Sampling

VOCAB, STEPS, SAMPLES = 12, 40, 16
ANSWERS = {question: 2 + question * 7 % 10 for question in range(2, VOCAB)}  # a permutation: no answer suits all
MODEL = Transformer(Architecture(VOCAB, 16, 32, 1, 2, 1, 8, tie_embeddings=False))
CAPACITY = for_slots(len(ANSWERS), SAMPLES, (8,), (8,), block=8, prefill_tokens=128)


def test_the_answer_that_is_rewarded_becomes_the_likeliest():
    learner = Learner(
        MODEL,
        GRPO(GRPOConfig(kl_coef=0.0)),
        OptimizerConfig(learning_rate=2e-2, warmup_steps=0, weight_decay=0.0),
        PackingConfig(row_length=64, micro_batch_tokens=512),
        total_steps=STEPS,
    )
    sampler = Sampler(MODEL, eos_ids=(1,), pad_id=0, seed=0, capacity=CAPACITY)
    state = learner.init(init_params(MODEL, jax.random.key(0)))
    for step in range(STEPS):
        requests = [Request((question,), (step, question), SAMPLES) for question in ANSWERS]
        groups = []
        for i, completions in sampler.generate(state.params, requests, Sampling(max_new_tokens=1, temperature=1.0)):
            request = requests[i]
            right = ANSWERS[request.prompt[0]]
            advantages = group_advantages([float(c.tokens[0] == right) for c in completions])
            groups.append(
                [
                    Trajectory(request.prompt, c.tokens, float(a), logprobs=c.logprobs)
                    for c, a in zip(completions, advantages, strict=True)
                ]
            )
        state, metrics = learner.update(state, None, groups)
        assert metrics["rollout_difference_max"] < 1e-4  # the sampler drew from the policy that is updated
    asked = [Request((question,), (STEPS, question), 1) for question in ANSWERS]
    greedy = sampler.generate(state.params, asked, Sampling(max_new_tokens=1, temperature=0.0))
    said = {asked[i].prompt[0]: completions[0].tokens[0] for i, completions in greedy}
    assert said == ANSWERS


@pytest.mark.parametrize(
    ("preset", "overrides", "kept"),
    [
        ("micro/a1", ["code.grpo.kl_coef=0.01"], True),
        ("micro/a1", ["test.grpo.kl_coef=0.01"], True),
        ("micro/a1", [], False),  # none has to stay near one
        ("micro/a1", ["code.grpo.kl_coef=0.01", "code.start=elsewhere"], False),  # its own, then
        ("micro/golden", ["test.grpo.kl_coef=0.01"], False),  # there is no Test LLM
        ("micro/sft", ["test.grpo.kl_coef=0.01"], False),  # supervised: nothing is sampled
        ("micro/a1", ["code.grpo.kl_coef=0.01", "lora={rank: 2}"], False),  # the base is it
    ],
)
def test_the_policy_at_step_0_is_kept_only_where_one_has_to_stay_near_it(preset, overrides, kept):
    off = ["code.grpo.kl_coef=0", "test.grpo.kl_coef=0"]
    config = load(Config, preset, [*off, *overrides])
    assert Learning(config).shares_reference == kept


# --- what the sum over a mini-batch's tokens is divided by ---

CONSTANT = GRPO(GRPOConfig(normalizer="constant"), response_tokens=10)


def groups(*lengths):
    """One response in a group; one of no tokens was cut off before its first."""
    return [[Trajectory((3,), (4,) * length, 1.0, truncated=length > 6)] for length in lengths]


def test_a_constant_normalizer_counts_every_response_alike():
    assert GRPO(GRPOConfig()).normalizer(groups(2, 5, 7)) == 14
    assert CONSTANT.normalizer(groups(2, 5, 7)) == CONSTANT.normalizer(groups(1, 1, 9)) == 30
    masked = GRPO(GRPOConfig(normalizer="constant", mask_truncated=True), response_tokens=10)
    assert masked.normalizer(groups(2, 5, 7)) == 20
    assert CONSTANT.normalizer([[]]) == 1


@pytest.mark.parametrize(
    ("method", "longest"), [("a1", {"code": 32, "test": 64}), ("golden", {"code": 32}), ("self_play", {"code": 64})]
)
def test_a_policys_responses_count_as_the_longest_that_its_roles_may_draw(method, longest):
    config = load(Config, "micro/a1", ["rollout.code_tokens=32", "rollout.test_tokens=64", f"method.name={method}"])
    learning = Learning(config)
    assert {name: learning.response_tokens(name) for name in learning.sections} == longest
