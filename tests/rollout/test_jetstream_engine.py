import numpy as np
import pytest
from capacities import for_slots
from tiny_policy import tiny_policy

from codea1_jax.rollout import Request, Sampler, Sampling
from codea1_jax.rollout.jetstream.engine import JetStreamEngine, JetStreamSampler

PROMPTS = [tuple(b"def f"), tuple(b"sort a list"), tuple(b"x")]
LONGEST, BLOCK = 16, 4


@pytest.fixture(scope="module")
def policy():
    return tiny_policy()


@pytest.fixture(scope="module")
def engine(policy):
    capacity = for_slots(3, 1, (16,), (8, LONGEST), block=BLOCK, prefill_tokens=32)
    return JetStreamEngine(policy[0].model, policy[0].tokenizer, capacity)


def sampler_of(policy, kind=Sampler):
    capacity = for_slots(3, 2, (16,), (8, LONGEST), block=BLOCK, prefill_tokens=32)
    tokenizer, settings = policy.tokenizer, {"seed": 11, "capacity": capacity}
    if kind is JetStreamSampler:
        return JetStreamSampler(policy.model, tokenizer, **settings)
    return Sampler(policy.model, eos_ids=tokenizer.eos_ids, pad_id=tokenizer.pad_id, **settings)


def prefill(engine, params, index):
    padded = np.pad(PROMPTS[index], (0, 16 - len(PROMPTS[index])))
    return engine.prefill(params=params, padded_tokens=padded, true_length=len(PROMPTS[index]))


def test_slots_that_are_filled_one_after_another_draw_what_the_sampler_draws_for_each_prompt(engine, policy):
    (actor, params), drawn = policy, {index: [] for index in range(3)}
    greedy = Sampling(LONGEST, temperature=0.0)
    requests = [Request(prompt, (index,), 1) for index, prompt in enumerate(PROMPTS)]
    expected = dict(sampler_of(actor).generate(params, requests, greedy))
    state, slots = engine.init_decode_state(), {}
    params = sampler_of(actor)._to_decode_params(params)
    for index, slot in ((2, 0), (0, 2), (1, 1), *[(None, None)] * 5):  # they come later, while the others continue
        if index is not None:
            state = engine.insert(prefill(engine, params, index), state, slot)
            slots[index] = slot
        state, result = engine.generate(params, state)
        for there, place in slots.items():
            data = result.convert_to_numpy().get_result_at_slot(place)
            drawn[there].extend(data.tokens[0][data.valid[0].astype(bool)].tolist())
            assert data.lengths == [len(drawn[there])]
    assert [tuple(tokens) for tokens in drawn.values()] == [expected[index][0].tokens for index in range(3)]


def test_a_prompt_that_was_cut_is_refused(engine, policy):
    with pytest.raises(ValueError, match="17 tokens was cut to 16"):
        engine.prefill(params=policy[1], padded_tokens=np.zeros(16, np.int32), true_length=17)


def test_training_draws_the_same_tokens_and_logprobs_through_the_engine(policy):
    requests = [Request(prompt, (index,), 1 + index % 3) for index, prompt in enumerate(PROMPTS * 2)]
    core, jetstream = (sampler_of(policy[0], kind) for kind in (Sampler, JetStreamSampler))
    for sampling in (Sampling(10), Sampling(5, temperature=0.0), Sampling(16, temperature=0.7, top_p=0.9, top_k=40)):
        for (index, ours), (other, theirs) in zip(
            core.generate(policy[1], requests, sampling), jetstream.generate(policy[1], requests, sampling), strict=True
        ):
            assert index == other
            for one, two in zip(ours, theirs, strict=True):
                assert one.tokens == two.tokens and one.finished == two.finished
                np.testing.assert_allclose(one.logprobs, two.logprobs, atol=1e-5)
    assert core.counters == jetstream.counters
