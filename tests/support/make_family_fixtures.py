"""Writes tests/fixtures/families: what transformers computes for tiny random models of every family.

The tests read these files, so that they need no torch. Run it where torch is:

    uv venv /tmp/torch && uv pip install -p /tmp/torch torch==2.13.0 transformers==5.23.0
    /tmp/torch/bin/python tests/support/make_family_fixtures.py tests/fixtures/families

Per model: a Hugging Face directory (config.json and safetensors, as `save_pretrained` writes them) and
cases.npz. Every case holds tokens, positions, segment_ids (0 is padding), logits, and the log-probability of
each next token; the packed case also holds the gradient of the mean negative log-probability, as
`grad/<tensor name>`. Packed sequences are run alone, one by one, so that the truth knows nothing of packing. Models
whose RoPE is scaled have a case `far`, whose positions reach beyond their original context.
greedy.json holds prompts of mixed lengths and their greedy completions, some ended by the chosen end token,
some by the length limit.

tensors.json holds the names and shapes of the published sizes' tensors (those of layer 0 stand for all layers); it was
written from transformers' own classes by this script as it was in commit d8851012.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

VOCAB, HEAD_DIM, TIME, FAR = 97, 8, 13, 48
ORIGINAL = 16  # positions of the context before RoPE was scaled
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
MODELS: dict[str, dict[str, Any]] = {  # settings of config.json that differ from those in `build`
    "mha_tied": {"tie_word_embeddings": True},
    "gqa2_untied": {"num_key_value_heads": 2, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    "gqa7_tied": {
        "num_attention_heads": 7,
        "num_key_value_heads": 1,
        "num_hidden_layers": 3,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    },
    "gqa7_untied": {"num_attention_heads": 14, "num_key_value_heads": 2, "num_hidden_layers": 1},
    "qwen3": {"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 12, "tie_word_embeddings": True},
    "llama3": {
        "model_type": "llama",
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {**LLAMA3, "rope_theta": 5e5, "original_max_position_embeddings": ORIGINAL},
    },
    "llama_linear": {  # as DeepSeek-Coder
        "model_type": "llama",
        "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e5},
    },
    "smollm3": {
        "model_type": "smollm3",
        "num_key_value_heads": 2,
        "num_hidden_layers": 3,
        "no_rope_layers": [1, 0, 1],
        "tie_word_embeddings": True,
    },
}
SHARD_BYTES = {"gqa2_untied": "40KB", "gqa7_untied": "60KB"}
GREEDY = {"mha_tied": 50, "gqa7_untied": 50, "qwen3": 25, "llama3": 25, "llama_linear": 25, "smollm3": 25}  # prompts


def build(name: str, seed: int) -> PreTrainedModel:
    """A random model whose biases, norms and logits are far from trivial."""
    settings = {
        "model_type": "qwen2",
        "vocab_size": VOCAB,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    } | MODELS[name]
    heads = settings["num_attention_heads"]
    sizes = {"hidden_size": 28 if heads % 7 == 0 else 32, "intermediate_size": 6 * heads + 5}
    config = AutoConfig.for_model(**sizes, **settings, attn_implementation="eager")
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).eval()
    for tensor_name, parameter in model.named_parameters():
        noise = torch.randn_like(parameter)
        parameter.data = 1 + 0.2 * noise if "norm" in tensor_name else 0.25 * noise
    return model


def padded_case(model: PreTrainedModel, lengths: list[int], left: bool, time: int = TIME) -> dict[str, np.ndarray]:
    """One padded batch, through transformers' own attention mask."""
    places, wanted = torch.arange(time), torch.tensor(lengths)[:, None]
    mask = (places >= time - wanted if left else places < wanted).long()
    tokens = torch.randint(VOCAB, mask.shape) * mask
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        logits = model(input_ids=tokens, attention_mask=mask, position_ids=positions).logits
    return case(tokens, positions, mask, logits)


def packed_case(model: PreTrainedModel, rows: list[list[int]]) -> dict[str, np.ndarray]:
    """Rows of several segments, each segment run alone; with the gradient of the mean negative logprob."""
    tokens = torch.zeros(len(rows), TIME, dtype=torch.long)
    positions, segments = torch.zeros_like(tokens), torch.zeros_like(tokens)
    logits = torch.zeros(len(rows), TIME, VOCAB)
    losses = []
    for row, lengths in enumerate(rows):
        start = 0
        for segment, length in enumerate(lengths, start=1):
            here = slice(start, start + length)
            alone = torch.randint(VOCAB, (1, length))
            out = model(input_ids=alone).logits[0]
            losses.append(torch.nn.functional.cross_entropy(out[:-1], alone[0, 1:], reduction="none"))
            tokens[row, here], segments[row, here] = alone[0], segment
            positions[row, here], logits[row, here] = torch.arange(length), out.detach()
            start += length
    model.zero_grad()
    torch.cat(losses).mean().backward()
    gradients = {f"grad/{name}": p.grad.numpy() for name, p in model.named_parameters()}
    return case(tokens, positions, segments, logits) | gradients


def case(tokens, positions, segments, logits) -> dict[str, np.ndarray]:
    """Arrays of one case; next-token logprobs are 0 where the next token is not of the same segment."""
    logprobs = torch.log_softmax(logits, -1)[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
    same = (segments[:, 1:] == segments[:, :-1]) & (segments[:, :-1] > 0)
    arrays = {
        "tokens": tokens.int(),
        "positions": positions.int(),
        "segment_ids": segments.int(),
        "logits": logits * (segments > 0)[..., None],
        "next_logprobs": logprobs * same,
    }
    return {key: value.numpy() for key, value in arrays.items()}


def greedy(model: PreTrainedModel, name: str, prompts: int, max_new_tokens: int) -> dict:
    """Greedy completions of prompts run one by one; those with a near tie are left out."""
    samples = []
    while len(samples) < prompts:
        prompt = torch.randint(VOCAB, (1, int(torch.randint(1, 30, ()))))
        out = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=max_new_tokens,
            output_logits=True,
            return_dict_in_generate=True,
        )
        logits = torch.cat(out.logits)
        best = logits.topk(2).values
        if (best[:, 0] - best[:, 1]).min() < 1e-3:
            continue
        completion = out.sequences[0, prompt.shape[1] :]
        logprobs = torch.log_softmax(logits, -1).gather(-1, completion[:, None])[:, 0]
        samples.append((prompt[0].tolist(), completion.tolist(), logprobs.tolist()))
    eos = token_in_half([completion for _, completion, _ in samples])
    return {
        "model": name,
        "eos": eos,
        "max_new_tokens": max_new_tokens,
        "samples": [ended(*sample, eos) for sample in samples],
    }


def token_in_half(completions: list[list[int]]) -> int:
    """The token found in nearest to half of the completions: made the end token, it ends about half."""
    return min(range(VOCAB), key=lambda token: abs(sum(token in c for c in completions) - len(completions) / 2))


def ended(prompt: list[int], completion: list[int], logprobs: list[float], eos: int) -> dict:
    """The sample cut after its first end token, as greedy decoding with that end token would have left it."""
    length = completion.index(eos) + 1 if eos in completion else len(completion)
    return {"prompt": prompt, "completion": completion[:length], "logprobs": [round(x, 6) for x in logprobs[:length]]}


def write_fixtures(directory: Path) -> None:
    """Writes every model's directory and greedy.json under `directory`."""
    truths = []
    for seed, name in enumerate(MODELS):
        model = build(name, seed)
        model.save_pretrained(directory / name, max_shard_size=SHARD_BYTES.get(name, "1GB"))
        cases = {
            "plain": padded_case(model, [13, 13, 13], left=False),
            "left": padded_case(model, [13, 5, 1], left=True),
            "right": padded_case(model, [12, 4, 7], left=False),
            "packed": packed_case(model, [[5, 1, 7], [9, 3], [2, 11]]),
        }
        if model.config.rope_parameters["rope_type"] != "default":
            cases["far"] = padded_case(model, [FAR], left=False, time=FAR)
        flat = {f"{kind}/{key}": array for kind, arrays in cases.items() for key, array in arrays.items()}
        np.savez_compressed(directory / name / "cases.npz", **flat)
        if name in GREEDY:
            truths.append(greedy(model, name, prompts=GREEDY[name], max_new_tokens=24))
    lines = json.dumps(truths).replace('{"prompt"', '\n{"prompt"')
    (directory / "greedy.json").write_text(lines + "\n")


if __name__ == "__main__":
    write_fixtures(Path(sys.argv[1]))
