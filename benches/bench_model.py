"""Forward and backward pass of one model, compared with transformers on torch: `make bench-model`.

98 million parameters in float32 on a CPU, 4 sequences of 512 tokens, the same weights and tokens in one process each,
two steps by turns, of which the second counts. Ends with one line of JSON. About two minutes on two quiet cores, after
the environment is made.
"""

import tempfile
from pathlib import Path

import numpy as np
from contenders import Contender
from harness import SHAPE, contenders, finish, save_model, speedups, table, take_turns

from codea1_jax.models.flops import causal, layers_flops, vocabulary_flops

SEQUENCES, LENGTH, TURNS = 4, 512, 3


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        save_model(directory)
        np.save(directory / "tokens.npy", np.random.default_rng(0).integers(0, SHAPE.vocab_size, (SEQUENCES, LENGTH)))
        with contenders("model", ["transformers"], directory) as started:
            first = {name: contender.ask() for name, contender in started.items()}  # compiles, warms caches
            for measure in ("loss", "gradient_norm"):
                np.testing.assert_allclose(first["ours"][measure], first["transformers"][measure], rtol=1e-4)
            turns = take_turns(started, TURNS, Contender.ask_twice)
    tokens = SEQUENCES * LENGTH
    forward = layers_flops(SHAPE, tokens, SEQUENCES * causal(LENGTH)) + vocabulary_flops(SHAPE, tokens)
    print(table(turns, 3 * forward / 1e9, "GFLOP"))
    finish("model", {"torch": speedups(turns)["transformers"]})


if __name__ == "__main__":
    main()
