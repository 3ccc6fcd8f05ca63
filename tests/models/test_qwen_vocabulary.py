"""Qwen's tokenizer from its ranks, and random models that carry it."""

from dataclasses import replace

from qwen_vocabulary import make_tokenizer
from tiny_model import SHAPE

from codea1_jax.models.policy import write_random_model
from codea1_jax.models.tokenizer import load_tokenizer

BYTES = {bytes([byte]): byte for byte in range(256)}


def test_a_random_model_reads_conversations_as_qwen_does(tmp_path):
    ranks = BYTES | {b"de": 256, b"def": 257, b" x": 258}
    write_random_model(tmp_path / "model", replace(SHAPE, vocab_size=300), make_tokenizer(ranks))
    tokenizer = load_tokenizer(tmp_path / "model")
    assert tokenizer.encode("def") == (257,)
    assert tokenizer.encode("def x1") == (257, 258, ord("1"))
    text = tokenizer.hf.decode(tokenizer.encode_chat([{"role": "user", "content": "hi"}]))
    system = "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
    assert text == f"{system}<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.eos_ids == (261, 259) and tokenizer.pad_id == 259  # <|im_end|> and <|endoftext|>
