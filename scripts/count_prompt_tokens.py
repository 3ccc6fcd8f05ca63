"""Counts the tokens of both models' prompts with Qwen's own vocabulary, over all questions of some data.

    pip download --no-deps dashscope && unzip dashscope-*.whl
    python scripts/count_prompt_tokens.py dashscope/resources/qwen.tiktoken DATA ...

Test prompts show the reference as the program under test. The vocabulary is not part of this project: the `dashscope`
wheel on PyPI has it, as ranks of byte sequences; the merges follow from the ranks.
"""

from __future__ import annotations

import argparse
import base64
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

import data_pipeline
from codea1_jax.game.prompts import chat_prompts
from codea1_jax.models.tokenizer import Tokenizer
from data_pipeline import Problem
from data_pipeline.leakage import described

SUITE_SIZE = 8
ALLOWED = {"code": 4_096, "test": 8_192, "test, short": 8_192}  # tokens, as in the presets
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def qwen_tokenizer(ranks_file: Path) -> Tokenizer:
    """Qwen2.5's tokenizer, from the ranks of its byte sequences."""
    ranks = {
        base64.b64decode(token): int(rank) for token, rank in map(bytes.split, ranks_file.read_bytes().splitlines())
    }
    letters = bytes_to_unicode()

    def spelled(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    merges = [(spelled(left), spelled(right)) for left, right in _merges(ranks)]
    core = tokenizers.Tokenizer(models.BPE({spelled(token): rank for token, rank in ranks.items()}, merges))
    core.normalizer = normalizers.NFC()
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(WORDS), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(f"<|{name}|>", special=True) for name in ("endoftext", "im_start", "im_end")])
    fast = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE
    return Tokenizer(fast, (len(ranks) + 2,), len(ranks))


def _merges(ranks: dict[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
    """The pair that each longer token is merged from, in the order of the ranks."""
    for token in sorted(ranks, key=ranks.__getitem__):
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:  # as the encoder merges it: always the pair of the lowest rank
            pairs = [ranks.get(left + right, len(ranks)) for left, right in itertools.pairwise(parts)]
            at = pairs.index(min(pairs))
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            yield parts[0], parts[1]


def count(problems: Sequence[Problem], tokenizer: Tokenizer) -> dict[str, list[int]]:
    """The tokens of each prompt, by kind."""
    full, short = (chat_prompts(tokenizer, SUITE_SIZE, short=short) for short in (False, True))
    shown = [(p, described(p).described) for p in problems]
    return {
        "code": [len(full.code(p.question, p.entry_point)) for p in problems],
        "test": [len(full.test(description, p.entry_point, p.solution)) for p, description in shown],
        "test, short": [len(short.test(description, p.entry_point, p.solution)) for p, description in shown],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("data", nargs="+")
    options = parser.parse_args()
    tokenizer = qwen_tokenizer(options.vocabulary)
    print("| data | prompts | kind | median | 99% | longest | allowed |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for source in options.data:
        problems = data_pipeline.load(source, "all").problems
        for kind, tokens in count(problems, tokenizer).items():
            ordered = sorted(tokens)
            middle, high = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
            name = Path(source).name
            print(f"| {name} | {len(ordered)} | {kind} | {middle:,} | {high:,} | {ordered[-1]:,} | {ALLOWED[kind]:,} |")


if __name__ == "__main__":
    main()
