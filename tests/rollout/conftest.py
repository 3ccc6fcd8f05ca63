"""A tiny policy with sharp enough logits that greedy choices are never ties."""

import jax
import numpy as np
import pytest

from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Params, Transformer, init_params
from codea1_jax.rollout import Request

VOCAB = 41


@pytest.fixture(scope="session")
def model() -> Transformer:
    return Transformer(Architecture(VOCAB, 24, 40, 2, 4, 2, 6, rope_theta=100.0, tie_embeddings=False))


@pytest.fixture(scope="session")
def params(model: Transformer) -> Params:
    drawn = init_params(model, jax.random.key(3))
    return jax.tree.map(lambda x: 6 * x if x.ndim > 1 else x, drawn)


@pytest.fixture(scope="session")
def requests() -> list[Request]:
    """Eleven prompts of 1 to 17 tokens, with 1 to 5 samples each."""
    random = np.random.default_rng(0)
    lengths = [1, 17, 2, 9, 16, 5, 8, 3, 12, 7, 1]
    return [
        Request(tuple(random.integers(3, VOCAB, length).tolist()), (4, index), 1 + index % 5)
        for index, length in enumerate(lengths)
    ]
