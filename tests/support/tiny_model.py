"""A random two-layer Qwen2 with Qwen's own vocabulary: real prompts at a size that a laptop trains in seconds."""

from __future__ import annotations

import argparse
from dataclasses import replace

from qwen_vocabulary import make_tokenizer, read_merges

from codea1_jax.cli import reproduce
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.policy import write_random_model
from codea1_jax.models.published import QWEN25

SHAPE = Architecture(
    vocab_size=QWEN25["1.5b"].vocab_size,
    hidden_size=32,
    intermediate_size=64,
    num_layers=2,
    num_heads=2,
    num_kv_heads=1,
    head_dim=16,
    tie_embeddings=True,
)
# The presets of the smallest model, shrunk until two CPU cores train each of them in a minute.
OVERRIDES = (
    *("model.compute_dtype=float32", "model.remat=none", "train.questions=2"),
    *("rollout.engine=core", "rollout.block=8", "rollout.rows=8", "rollout.samples=2", "rollout.suites=2"),
    # Most real prompts are shorter; a question with a longer one is left out.
    *("rollout.code_prompt_tokens=496", "rollout.test_prompt_tokens=1008", "rollout.prefill_tokens=1024"),
    *("rollout.code_tokens=16", "rollout.test_tokens=16"),
    *("code.packing={row_length: 512, micro_batch_tokens: 512}", "code.grpo.mini_batch_questions=1"),
    *("test.packing={row_length: 1024, micro_batch_tokens: 1024}", "test.grpo.mini_batch_questions=1"),
    *("eval.samples=1", "checkpoint.keep_last=1"),
)


def shrink_lab() -> None:
    """Lets `codea1 reproduce --model 1.5b` train this model, in two steps, on the rows that are named."""
    paper_lab = reproduce.paper_lab

    def tiny_lab(options: argparse.Namespace):
        lab, out = paper_lab(options), options.out
        data, weights = out / "data", out / "model"
        out.mkdir(parents=True, exist_ok=True)
        if not weights.exists():
            write_random_model(weights, SHAPE, make_tokenizer(read_merges()))
        places = dict(word.split("=", 1) for word in options.data)
        steps, (prepare,) = () if options.steps else ("train.steps=2",), lab.preparing_data
        words = (*prepare.words, "--out", str(data), "--difficulty", "easy", "medium", "hard")
        return replace(
            lab,
            weights=str(weights),
            data=str(data / "kodcode"),
            preparing_data=(replace(prepare, directory=data / "kodcode", words=words),),
            places={name: place for name, place in places.items() if name != "kodcode"},
            overrides=(
                f"model.pretrained={weights}",
                f"data.source={data / 'kodcode'}",
                *steps,
                *lab.overrides,
                *OVERRIDES,
            ),
            samples=2,
            longest=16,
        )

    reproduce.paper_lab = tiny_lab
    reproduce.check_ready = lambda options: None  # only of the named rows, and they are there
