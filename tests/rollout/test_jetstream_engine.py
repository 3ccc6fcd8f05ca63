import numpy as np
import pytest
from tiny_policy import tiny_policy

from codea1_jax.rollout import Capacity, Request, Sampler, Sampling
from codea1_jax.rollout.jetstream.engine import JetStreamEngine, Prompt, SampleKeys
from codea1_jax.rollout.jetstream.sampler import JetStreamSampler
from codea1_jax.rollout.schedule import sample_key

CAPACITY = Capacity.for_slots(3, 2, (16,), (8, 16), block=4, prefill_tokens=32)
PROMPTS = [tuple(b"def f"), tuple(b"sort a list"), tuple(b"x")]
SAMPLINGS = [Sampling(10), Sampling(5, temperature=0.0), Sampling(16, temperature=0.7, top_p=0.9, top_k=40)]
SEED = 11


@pytest.fixture(scope="module")
def policy():
    return tiny_policy()


@pytest.fixture(scope="module")
def engine(policy):
    return JetStreamEngine(policy[0].model, policy[0].tokenizer, CAPACITY)


@pytest.fixture(scope="module")
def expected(policy):
    """What the core's own sampler gives for each prompt by itself."""
    (actor, params), found = policy, []
    for index, (prompt, sampling) in enumerate(zip(PROMPTS, SAMPLINGS, strict=True)):
        sampler = Sampler(actor.model, eos_ids=actor.tokenizer.eos_ids, pad_id=0, seed=SEED, capacity=CAPACITY)
        ((_, completions),) = sampler.generate(params, [Request(prompt, (index,), 2)], sampling)
        found.append(completions)
    return found


def prompt_of(engine, index):
    keys = np.stack([sample_key(SEED, (index,), sample) for sample in range(2)])
    return Prompt(engine.build_tokenizer(None).pad(PROMPTS[index]), SampleKeys(SAMPLINGS[index], keys))


def prefill(engine, params, index):
    return engine.prefill(params=params, padded_tokens=prompt_of(engine, index), true_length=len(PROMPTS[index]))


def test_slots_with_samplings_of_their_own_draw_what_the_sampler_draws_for_each_alone(engine, policy, expected):
    params = engine.decode_params(policy[1])
    state = engine.init_decode_state()
    drawn = {index: ([], []) for index in range(3)}
    slot_inputs = {2: 0}
    state = engine.insert(prefill(engine, params, 2), state, slot=0)
    for _ in range(7):
        state, result = engine.generate(params, state)
        result = result.convert_to_numpy()
        for index, slot in slot_inputs.items():
            data = result.get_result_at_slot(slot)
            for sample in range(2):
                drawn[index][sample].extend(data.tokens[sample][data.valid[sample].astype(bool)])
        for index, slot in ((0, 2), (1, 1)):  # they come later, while the first continues
            if index not in slot_inputs:
                state = engine.insert(prefill(engine, params, index), state, slot)
                slot_inputs[index] = slot
                break
    for index, completions in enumerate(expected):
        for tokens, completion in zip(drawn[index], completions, strict=True):
            assert tuple(tokens) == completion.tokens
            np.testing.assert_allclose([token.logprob for token in tokens], completion.logprobs, atol=1e-4)


def test_a_prompt_that_was_cut_is_refused(engine, policy):
    with pytest.raises(ValueError, match="17 tokens was cut to 16"):
        engine.prefill(params=engine.decode_params(policy[1]), padded_tokens=np.zeros(16, np.int32), true_length=17)


def test_broken_parameters_are_reported(engine, policy):
    params = engine.decode_params(policy[1])
    broken = {**params, "embed_tokens": params["embed_tokens"] * np.nan}
    state = engine.insert(prefill(engine, broken, 0), engine.init_decode_state(), slot=1)
    with pytest.raises(FloatingPointError, match="not finite"):
        engine.generate(broken, state)[1].convert_to_numpy()


def test_training_draws_the_same_tokens_and_logprobs_through_the_engine(policy):
    (actor, params), settings = policy, {"seed": SEED, "capacity": CAPACITY}
    requests = [Request(prompt, (index,), 1 + index % 3) for index, prompt in enumerate(PROMPTS * 2)]
    tokenizer = actor.tokenizer
    core = Sampler(actor.model, eos_ids=tokenizer.eos_ids, pad_id=tokenizer.pad_id, **settings)
    jetstream = JetStreamSampler(actor.model, tokenizer, **settings)
    for sampling in SAMPLINGS:
        for (index, ours), (other, theirs) in zip(
            core.generate(params, requests, sampling), jetstream.generate(params, requests, sampling), strict=True
        ):
            assert index == other
            for one, two in zip(ours, theirs, strict=True):
                assert one.tokens == two.tokens and one.finished == two.finished
                np.testing.assert_allclose(one.logprobs, two.logprobs, atol=1e-5)
    assert core.counters == jetstream.counters
    assert core.programs == jetstream.programs
