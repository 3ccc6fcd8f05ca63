"""The warm start leaves a policy that tells apart what its corpus tells apart."""

import random

import jax
import numpy as np
import pytest

from codea1_jax.config import Config, load
from codea1_jax.learn.batch import Example
from codea1_jax.learn.packing import pack
from codea1_jax.learn.phases import TargetScores
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.training.policies import make_policy
from codea1_jax.training.warm_start import warm_start
from data_pipeline import micro
from data_pipeline.micro.generate import programs
from data_pipeline.micro.programs import Comparison
from data_pipeline.micro.questions import ask

ASKED = 400


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_the_warm_start_tells_inclusive_from_strict(seed):
    """Else reinforcement learning must find out alone, and whether it does within a run is chance."""
    config = load(Config, "micro/a1")
    start, policy = config.warm_start, make_policy(config.model)
    assert start is not None
    params = warm_start(policy, start, seed, one_device_mesh())
    scores = jax.jit(TargetScores(policy.model, logit_chunk=start.packing.logit_chunk))

    def logprob(question: str, code: str) -> float:
        response = policy.tokenizer.encode(code)
        example = Example(policy.tokenizer.encode(f"{question}\n"), response, (1.0,) * len(response))
        (batch,) = pack([example], start.packing)
        return float(np.sum(scores(params, batch)[0] * batch.mask))

    rng = random.Random(seed)
    source = programs("heldout", rng)
    odds: dict[str, list[float]] = {">": [], ">=": [], "<": [], "<=": []}
    while sum(map(len, odds.values())) < ASKED:
        program = next(source)
        if isinstance(program.condition, Comparison):
            question = ask(program, micro.FUNCTION, rng)
            (bug,) = program.boundary_bugs()
            right, wrong = (each.code(micro.FUNCTION) for each in (program, bug))
            odds[program.condition.operator].append(logprob(question, right) - logprob(question, wrong))
    rates = micro.WarmStart()
    in_corpus = log_odds(1 - rates.strict_bug) + log_odds(1 - rates.inclusive_bug)
    for strict, inclusive in ((">", ">="), ("<", "<=")):
        assert np.mean(odds[strict]) + np.mean(odds[inclusive]) > in_corpus / 2


def log_odds(probability: float) -> float:
    return float(np.log(probability / (1 - probability)))
