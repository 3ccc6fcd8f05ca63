"""The programs that a plan counts are those that a rollout and an update run."""

from collections import Counter

import pytest
from tiny_policy import tiny_policy

from codea1_jax.config import Config, load
from codea1_jax.learn import Example
from codea1_jax.learn.packing import pack
from codea1_jax.plan.forecast import learning_calls, sampling_calls
from codea1_jax.plan.planned_run import planned_run_on
from codea1_jax.plan.workload import Group, sampling_loads
from codea1_jax.rollout import Request, Sampler, Sampling
from codea1_jax.rollout.decode import Decoder
from codea1_jax.rollout.schedule import Schedule

SMALL = (
    "model.architecture={hidden_size: 24, intermediate_size: 40, num_layers: 1, head_dim: 6}",
    "rollout={samples: 3, rows: 6, block: 8, code_prompt_tokens: 256, code_tokens: 512, prefill_tokens: 512}",
    "code.packing={row_length: 512, micro_batch_tokens: 512, logit_chunk: 64}",
    "code.grpo={mini_batch_questions: 4, kl_coef: 0.001}",
    "train.questions=8",
)
GROUPS = tuple(
    Group(prompt, responses)
    for prompt, responses in [
        *((250, (1, 256, 50)), (160, (40, 40, 170)), (90, (130, 2, 2)), (80, (80, 31, 30))),
        *((2, (16, 1, 1)), (12, (3, 9, 25)), (25, (1, 1, 1)), (3, (70, 80, 90))),
    ]
)


@pytest.fixture(scope="module")
def run():
    return planned_run_on(load(Config, "micro/golden", SMALL), "cpu", 1)


def test_sampling_calls_the_programs_of_a_real_rollout(run, monkeypatch):
    (load_,) = sampling_loads(run.config)
    policy, params = tiny_policy()
    sampler, decoders = Sampler(policy.model, eos_ids=(-1,), pad_id=0, seed=0, capacity=run.capacity(load_)), set()
    calls = sampling_calls(run, {load_: GROUPS})
    admit, prefills = Schedule.admit, []
    monkeypatch.setattr(Schedule, "admit", lambda self: [prefills.append(pack) or pack for pack in admit(self)])
    decode = Decoder.__call__

    def decoded(self, params, cache, prompts, rows, controls):
        decoders.add((len(rows.token), *self.columns))
        return decode(self, params, cache, prompts, rows, controls)

    monkeypatch.setattr(Decoder, "__call__", decoded)
    decoded.lower = decode.lower
    requests = [Request((5,) * g.prompt, (i,), len(g.responses), g.responses) for i, g in enumerate(GROUPS)]
    list(sampler.generate(params, requests, Sampling(256)))
    assert set(calls["decode", "code"].shapes) == decoders and len(decoders) > 1
    assert calls["prefill", "code"].shapes == Counter((pack.tokens.shape[1],) for pack in prefills)
    # A block's part is its steps by those of a whole one.
    assert calls["decode", "code"].count == pytest.approx(sampler.counters.steps / 8)


def test_learning_calls_the_programs_of_the_batches_that_are_made(run):
    calls = learning_calls(run, "code", GROUPS)
    halves = [
        [
            Example(range(i, i + group.prompt), [0] * n, [1.0] * n)
            for i, group in enumerate(half)
            for n in group.responses
        ]
        for half in (GROUPS[:4], GROUPS[4:])
    ]
    batches = [batch.tokens.shape for half in halves for batch in pack(half, run.config.code.packing, 1)]
    for phase in (("gradient", "code"), ("score-ref", "code")):
        assert calls[phase].shapes == Counter(batches)
    assert calls["update", "code"].shapes == {(): 2}
