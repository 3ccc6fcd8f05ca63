"""Forward and backward pass of one model, compared with transformers on torch: `make bench-model`.

On a CPU: 98 million parameters in float32, 4 sequences of 512 tokens, the same weights and tokens in one process each,
two steps by turns, of which the second counts. On CUDA: the share of the peak (MFU) that a 1.5B-parameter model reaches
in bfloat16 at 4,096 tokens.
Ends with one line of JSON. About two minutes on two quiet cores, after the environment is made.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from contenders import Contender, environment
from model_ours import loss

from codea1_jax.devices.chips import CHIPS
from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.flops import causal, layers_flops, vocabulary_flops
from codea1_jax.models.published import QWEN25
from codea1_jax.models.qwen2 import Qwen2, init_params
from codea1_jax.models.weights import save_params

SHAPE = Qwen2Config(32_000, 768, 2048, 12, 12, 2, 64)
SEQUENCES, LENGTH, TURNS = 4, 512, 3
TORCH = ("torch==2.13.0", "transformers>=5,<6")


def on_cpu() -> dict[str, float]:
    """Prints the table; our speed over torch's."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        save_params(directory, init_params(Qwen2(SHAPE), jax.random.key(0)), SHAPE)
        tokens = np.random.default_rng(0).integers(0, SHAPE.vocab_size, (SEQUENCES, LENGTH))
        np.save(directory / "tokens.npy", tokens)
        contenders = {
            "torch": Contender(environment("torch", TORCH), "model_torch.py", directory),
            "ours": Contender(sys.executable, "model_ours.py", directory),
        }
        first = {name: contender.ask() for name, contender in contenders.items()}  # compiles, warms caches
        for measure in ("loss", "gradient_norm"):
            np.testing.assert_allclose(first["ours"][measure], first["torch"][measure], rtol=1e-4)
        turns = [{name: contender.ask_twice() for name, contender in contenders.items()} for _ in range(TURNS)]
        for contender in contenders.values():
            contender.stop()
    flops = training_flops(SHAPE, SEQUENCES, LENGTH)
    seconds = {name: statistics.median(turn[name]["seconds"] for turn in turns) for name in contenders}
    for name, median in seconds.items():
        peak = turns[-1][name]["peak_gb"]
        print(f"{name:6} {median:7.2f} s {flops / median / 1e9:7.0f} GFLOP/s {peak:6.1f} GB at most")
    # Of each turn by itself, since the machine may be busier in one than in another.
    return {"torch": statistics.median(turn["torch"]["seconds"] / turn["ours"]["seconds"] for turn in turns)}


def training_flops(config: Qwen2Config, sequences: int, length: int) -> float:
    """Of forward and backward pass: the backward takes twice as many as the forward."""
    tokens = sequences * length
    return 3 * (layers_flops(config, tokens, sequences * causal(length)) + vocabulary_flops(config, tokens))


def on_cuda(length: int = 4096) -> dict[str, float]:
    """Prints the MFU; unmeasured so far."""
    kind = jax.devices()[0].device_kind.lower()
    chip = next((chip for name, chip in CHIPS.items() if name in kind), None)
    if chip is None:
        raise SystemExit(f"the peak of {kind} is not known: add it to codea1_jax/devices/chips.py")
    config = QWEN25["1.5b"]
    model = Qwen2(config, jnp.dtype("bfloat16"), remat="dots")
    params = init_params(model, jax.random.key(0))
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, config.vocab_size, (1, length)))
    step = jax.jit(jax.value_and_grad(lambda params: loss(model, params, tokens)))
    jax.block_until_ready(step(params))
    started = time.perf_counter()
    for _ in range(TURNS):
        jax.block_until_ready(step(params))
    seconds = (time.perf_counter() - started) / TURNS
    mfu = training_flops(config, 1, length) / seconds / chip.flops
    print(f"1.5B, bfloat16, {length} tokens on {kind}: {seconds:.3f} s, {length / seconds:.0f} tokens/s, MFU {mfu:.1%}")
    return {"mfu": mfu}


def main() -> None:
    ratios = on_cuda() if jax.default_backend() == "gpu" else on_cpu()
    print(json.dumps({"bench": "model", "ratios": {name: round(ratio, 3) for name, ratio in ratios.items()}}))


if __name__ == "__main__":
    main()
