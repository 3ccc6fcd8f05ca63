"""Reads what was pushed with the libraries that it is for. Run by test_other_readers.py, where these are installed.

python read_back.py ARRIVED
"""

import sys
from pathlib import Path

import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

arrived = Path(sys.argv[1])

for role in ("code", "test"):
    tokenizer = AutoTokenizer.from_pretrained(arrived / role)
    model = AutoModelForCausalLM.from_pretrained(arrived / role)
    logits = model(torch.tensor([tokenizer.encode("return 1")])).logits
    assert logits.isfinite().all() and logits.shape[-1] == model.config.vocab_size

for name in ("programs", "suites"):
    rows = load_dataset(str(arrived / "rollouts"), name, split="train")
    assert len(rows) > 0 and {"question", "program", "reward", "advantage"} <= set(rows.features)
