"""Text to tokens and back, over any Hugging Face fast tokenizer.

Two things here are not what transformers does by default. Special tokens are only ever made by the chat
template: text that merely spells one (a program may print `<|im_end|>`) stays text, so no message can end its
own turn. And whole sequences are decoded at once, because one token may be part of a multibyte character.
"""

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import tokenizers
from tokenizers import AddedToken, decoders, pre_tokenizers
from tokenizers import models as tokenizer_models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from codea1_jax.common.errors import UserError
from codea1_jax.common.files import checked, read_json

END = "<|endoftext|>"
SEPARATOR = "<|sep|>"
MICRO_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}" + END + "{% else %}" + SEPARATOR + "{% endif %}{% endfor %}"
)

# Before a chat template, which may write today's date: Llama's own default, so that prompts are alike on every day.
FIXED_DAY = "{% macro strftime_now(format) %}26 Jul 2024{% endmacro %}{{ '' }}"

# What a Hugging Face directory may state about its tokenizer and about where responses end.
FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
)

Message = Mapping[str, str]  # {"role": "system" | "user" | "assistant", "content": text}


@dataclass(frozen=True)
class Tokenizer:
    """A fast tokenizer with the ids that end a response and the id that fills padding.

    source: the Hugging Face directory it was read from; None if it was made here.
    enable_thinking: what a chat template that asks is told; None: nothing, so that it decides.
    """

    hf: PreTrainedTokenizerFast
    eos_ids: tuple[int, ...]
    pad_id: int
    source: Path | None = None
    enable_thinking: bool | None = None

    @property
    def vocab_size(self) -> int:
        """Ids in use; a model's embedding table may be larger."""
        return len(self.hf)

    @property
    def special_ids(self) -> dict[str, Any]:
        """What ends a response and what pads, as `config.json` and `generation_config.json` name them."""
        ends = list(self.eos_ids)
        return {"eos_token_id": ends[0] if len(ends) == 1 else ends, "pad_token_id": self.pad_id}

    def encode(self, text: str) -> tuple[int, ...]:
        """The tokens of plain text: nothing added, and no special token, whatever the text contains."""
        return tuple(self.hf(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])

    def encode_prompt(self, text: str) -> tuple[int, ...]:
        """The tokens of a text to continue, after what the model's tokenizer begins with (Llama and DeepSeek have such
        a token)."""
        return (*self.hf("")["input_ids"], *self.encode(text))

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The tokens of a conversation under the chat template, ready for the assistant's reply."""
        safe = [{**message, "content": self._disarmed(message["content"])} for message in messages]
        options: Any = {"chat_template": FIXED_DAY + self.hf.get_chat_template()}
        if self.enable_thinking is not None:
            options["enable_thinking"] = self.enable_thinking
        tokens = self.hf.apply_chat_template(
            safe, tokenize=True, return_dict=False, add_generation_prompt=True, **options
        )
        return tuple(cast("list[int]", tokens))

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of whole sequences of tokens, without special tokens; broken UTF-8 becomes U+FFFD."""
        return self.hf.backend_tokenizer.decode(list(tokens), skip_special_tokens=True)

    def save(self, directory: Path) -> None:
        """Writes what `AutoTokenizer` and `load_tokenizer` read: the source's own files, if it has one.

        `generation_config.json` always names what ends a response and what pads.
        """
        generation = directory / "generation_config.json"
        if self.source is not None:
            for name in FILES:
                if (self.source / name).exists():
                    shutil.copyfile(self.source / name, directory / name)
            declared = json.loads(generation.read_text()) if generation.exists() else {}
            if not self.special_ids.items() <= declared.items():
                _write_json(generation, declared | self.special_ids)
            return
        self.hf.save_pretrained(directory)
        _write_json(generation, self.special_ids)
        # transformers 5 writes its own class's name here, which transformers 4 (and so vLLM) does not know.
        settings = json.loads((directory / "tokenizer_config.json").read_text())
        _write_json(directory / "tokenizer_config.json", settings | {"tokenizer_class": "PreTrainedTokenizerFast"})

    def _disarmed(self, content: str) -> str:
        # A space after the first character keeps a spelled-out special token readable, but no longer special.
        special = [token.content for token in self.hf.added_tokens_decoder.values() if token.special]
        pattern = "|".join(re.escape(text) for text in sorted(special, key=len, reverse=True))
        return re.sub(pattern, lambda match: f"{match[0][0]} {match[0][1:]}", content) if special else content


def load_tokenizer(directory: Path, enable_thinking: bool | None = None) -> Tokenizer:
    """Reads a tokenizer from a local Hugging Face model directory.

    The ids that end a response are the tokenizer's own, which ends a turn and comes first, and those that
    `generation_config.json` adds. Raises UserError, naming the file, if one cannot be read or none names such an id;
    and if `enable_thinking` is given, but the chat template does not ask for it.
    """
    hf: Any = _read_tokenizer(directory)  # whose ids may be of any type to a type checker
    generation = directory / "generation_config.json"
    own = () if hf.eos_token_id is None else (hf.eos_token_id,)
    ends = tuple(dict.fromkeys((*own, *_declared_ends(generation))))
    if not ends:
        raise UserError(f"{generation}: no eos_token_id there nor in tokenizer_config.json; name what ends a response")
    pad_id = hf.pad_token_id if hf.pad_token_id is not None else ends[-1]
    if enable_thinking is not None and "enable_thinking" not in str(hf.chat_template):
        raise UserError(f"{directory}: its chat template does not ask for enable_thinking; leave that out")
    return Tokenizer(hf, ends, pad_id, directory, enable_thinking)


def _read_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    """From tokenizer.json, else from vocab.json and merges.txt as the model's type merges them."""
    for name in FILES:
        if name.endswith(".json") and name not in ("tokenizer.json", "vocab.json") and (directory / name).exists():
            read_json(directory / name)
    files = ["tokenizer.json"] if (directory / "tokenizer.json").exists() else ["vocab.json", "merges.txt"]
    if not all((directory / name).exists() for name in files):
        raise UserError(f"{directory}: no tokenizer.json, nor vocab.json and merges.txt, so no tokenizer")
    for name in files:
        checked(directory / name)
    # Where tokenizer.json is there, not AutoTokenizer, which swaps in the model type's own class and its normalizer.
    kind: Any = PreTrainedTokenizerFast if files == ["tokenizer.json"] else AutoTokenizer
    try:
        return kind.from_pretrained(directory, trust_remote_code=False)
    except Exception as error:  # the library raises Exception itself for what it cannot read
        reason = " ".join(str(error).split())
        raise UserError(f"{directory / files[0]}: not a tokenizer that can be read ({reason})") from error


def micro_tokenizer(words: Iterable[str]) -> Tokenizer:
    """A tokenizer of 256 bytes, two special tokens and `words`; any text makes an exact round trip.

    Ids: 0-255 bytes, 256 `<|endoftext|>` (end and padding), 257 `<|sep|>` (end of a prompt's message), then
    the words in order. At each place the longest word wins, else a byte is taken. Raises ValueError for a
    word that is not ASCII: the byte-level decoder would misread it.
    """
    words = tuple(words)
    foreign = [word for word in words if not word.isascii() or not word]
    if foreign:
        raise ValueError(f"words must be non-empty ASCII, got {foreign}")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    table = {character: index for index, character in enumerate(alphabet)}
    core = tokenizers.Tokenizer(tokenizer_models.BPE(vocab=table, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([END, SEPARATOR])
    core.add_tokens([AddedToken(word, normalized=False) for word in words])
    hf = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=END, pad_token=END, clean_up_tokenization_spaces=False
    )
    hf.chat_template = MICRO_CHAT_TEMPLATE
    end = len(alphabet)
    return Tokenizer(hf, (end,), end)


def _declared_ends(generation_config: Path) -> tuple[int, ...]:
    declared = read_json(generation_config).get("eos_token_id") if generation_config.exists() else None
    ends = tuple(declared) if isinstance(declared, list) else () if declared is None else (declared,)
    if not all(type(end) is int and end >= 0 for end in ends):
        raise UserError(f"{generation_config}: eos_token_id must be a token's number or several, not {declared!r}")
    return ends


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n")
