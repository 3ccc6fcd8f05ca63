"""A policy of a few thousand parameters with the micro tokenizer, for tests that need text."""

import jax

from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Params, Transformer, init_params
from codea1_jax.models.policy import Policy
from codea1_jax.models.tokenizer import micro_tokenizer


def tiny_policy() -> tuple[Policy, Params]:
    """The policy, and parameters under which greedy choices are never ties."""
    tokenizer = micro_tokenizer(())
    shape = Architecture(tokenizer.vocab_size, 24, 40, 1, 4, 2, 6, rope_theta=100.0, tie_embeddings=False)
    model = Transformer(shape)
    drawn = init_params(model, jax.random.key(3))
    return Policy(model, tokenizer), jax.tree.map(lambda x: 6 * x if x.ndim > 1 else x, drawn)
