"""Loss and gradient by codea1_jax. Argument: the bench's directory."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from contenders import REPORTED, turns

from codea1_jax.models.attention import choose_kernel, training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import Params, Transformer, output_table
from codea1_jax.models.logprobs import token_logprobs
from codea1_jax.models.weights import load_params, read_config


def loss(model: Transformer, params: Params, tokens: jax.Array) -> jax.Array:
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    attend = training_attention(
        Sight.within(jnp.ones_like(tokens)), choose_kernel(model.attention, model.dtype, model.architecture.head_dim)
    )
    hidden, _ = model.apply({"params": params}, tokens, positions, attend)
    table = output_table(params, model.architecture)
    return -jnp.mean(token_logprobs(hidden[:, :-1], table, tokens[:, 1:], chunk=tokens.size)[0])


def main() -> None:
    directory = Path(sys.argv[1])
    model = Transformer(read_config(directory))
    params = load_params(directory, model)
    tokens = jnp.asarray(np.load(directory / "tokens.npy"))
    step = jax.jit(jax.value_and_grad(lambda params: loss(model, params, tokens)))

    for _ in turns():
        value, gradient = jax.block_until_ready(step(params))
        if not REPORTED:  # in the first turn, which does not count
            REPORTED.update(loss=float(value), gradient_norm=float(optax.tree.norm(gradient)))


if __name__ == "__main__":
    main()
