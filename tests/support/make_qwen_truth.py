"""Writes what transformers computes for a Qwen2.5-Coder, or for the cut of one that tests make.

    uv venv /tmp/torch && uv pip install -p /tmp/torch --constraint requirements/lock.txt torch==2.13.0 -e .
    /tmp/torch/bin/python tests/support/make_qwen_truth.py [DIRECTORY FILE]

Into FILE, or for the cut tests/fixtures/qwen/transformers.json: the tokens of texts (10,000 for a directory, about 100
for the cut) and of conversations, greedy completions, and the log-probability of each of their tokens but the first.
Completions with a near tie are left out.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

import torch
from qwen_vocabulary import FIXTURES, write_cut
from transformers import AutoModelForCausalLM, AutoTokenizer

TASKS = ("counts the vowels of a text", "merges two sorted lists", "finds the n-th prime", "reverses a linked list")
MESSAGES = [
    *([{"role": "user", "content": f"Write a Python function that {task}."}] for task in TASKS),
    *([{"role": "user", "content": f"Write tests of a Python function that {task}."}] for task in TASKS),
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Was gibt `len('é🙂')`?\n"}],
]
NEW_TOKENS = 12
PIECES = (  # of which texts are made, as well as of code
    ("  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u200b", "\n\n\n", "        ", "x", "if", "(", "return"),
    tuple("0123456789.,+-eE_xjb%$#() "),
    ("<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|fim_prefix|>", "<tool_call>", "<|im_", "end|>", "é"),
    tuple(map(chr, (*range(0xA0, 0x700), *range(0x2000, 0x2300), *range(0x3040, 0x3100), *range(0x1F300, 0x1FB00)))),
    tuple(map(chr, (*range(0x900, 0x980), *range(0x1100, 0x1200), *range(0x4E00, 0xD7A4), *range(0x20000, 0x20FFF)))),
)


def make_texts(number: int) -> list[str]:
    draw, files = random.Random(0), sorted(FIXTURES.parents[2].glob("codea1_jax/**/*.py"))
    texts = []
    for _ in range(number // (1 + len(PIECES))):
        code = draw.choice(files).read_text()
        start = draw.randrange(max(1, len(code)))
        texts += [code[start : start + draw.randrange(1, 400)]]
        texts += ["".join(draw.choices(pieces, k=draw.randrange(1, 40))) for pieces in PIECES]
    return texts


def complete(model, prompt: list[int], ends: set[int]) -> dict | None:
    """The greedy completion of a prompt, and the log-probability of each token of both but the first.

    Not by `generate`, which also penalizes repetition where a model's generation_config.json says so.
    """
    tokens, margins = list(prompt), []
    while len(tokens) < len(prompt) + NEW_TOKENS and (not margins or tokens[-1] not in ends):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([tokens])).logits[0]
        best = logits[-1].topk(2)
        margins.append(best.values[0] - best.values[1])
        tokens.append(int(best.indices[0]))
    if min(margins) < 1e-3:
        return None
    logprobs = torch.log_softmax(logits, -1).gather(-1, torch.tensor(tokens[1:])[:, None])[:, 0]
    rounded = [round(number, 6) for number in logprobs.tolist()]
    return {"prompt": prompt, "completion": tokens[len(prompt) :], "logprobs": rounded}


def write_truth(directory: Path, out: Path, texts: list[str]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    prompts = [tokenizer.apply_chat_template(m, add_generation_prompt=True, return_dict=False) for m in MESSAGES]
    ends = {tokenizer.eos_token_id, tokenizer.pad_token_id}
    ids = tokenizer(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    truth = {
        "texts": list(zip(texts, ids, strict=True)),
        "conversations": list(zip(MESSAGES, prompts, strict=True)),
        "completions": [done for prompt in prompts if (done := complete(model, prompt, ends))],
    }
    out.write_text(json.dumps(truth, ensure_ascii=False).replace("], [", "],\n[") + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_truth(Path(sys.argv[1]), Path(sys.argv[2]), make_texts(10_000))
    else:
        with tempfile.TemporaryDirectory() as cut:
            write_cut(Path(cut))
            write_truth(Path(cut), FIXTURES / "transformers.json", make_texts(100))
