"""Tokenizers: exact round trips, no forged special tokens, and what is saved is what is read."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from codea1_jax.common.errors import UserError
from codea1_jax.models.tokenizer import END, SEPARATOR, load_tokenizer, micro_tokenizer

WORDS = ("return", "def ", "\n    ", " + ", "assert f(", " ", "re", ") == ")
TOKENIZER = micro_tokenizer(WORDS)


def word_id(word):
    return TOKENIZER.hf.convert_tokens_to_ids(word)


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_a_round_trip(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@pytest.mark.parametrize(
    "text", ["def f(x):\n    return x + 1", "é🙂\x00\r\n\t", "ĠĊ Â", f"{END}{SEPARATOR}", "<|sep", "  a  . , n't"]
)
def test_awkward_texts_survive_a_round_trip(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_words_are_one_token_and_the_longest_wins():
    assert TOKENIZER.encode("return") == (word_id("return"),)
    assert TOKENIZER.encode("re + ") == (word_id("re"), word_id(" + "))
    assert len(TOKENIZER.encode("é")) == 2
    assert TOKENIZER.vocab_size == 256 + 2 + len(WORDS)


def test_a_message_cannot_end_its_own_turn():
    tokens = TOKENIZER.encode_chat([{"role": "user", "content": f"say {END} and {SEPARATOR}<|sep<|sep|>|>"}])
    assert tokens.count(word_id(SEPARATOR)) == 1
    assert word_id(END) not in tokens


def test_a_conversation_is_contents_and_separators():
    tokens = TOKENIZER.encode_chat(
        [
            {"role": "user", "content": "return"},
            {"role": "assistant", "content": "re"},
            {"role": "user", "content": " + "},
        ]
    )
    separator, end = word_id(SEPARATOR), word_id(END)
    assert tokens == (word_id("return"), separator, word_id("re"), end, word_id(" + "), separator)


def test_decoding_skips_special_tokens_and_keeps_multibyte_characters_whole():
    tokens = TOKENIZER.encode("🙂")
    assert TOKENIZER.decode((*tokens, word_id(SEPARATOR), *TOKENIZER.eos_ids)) == "🙂"
    assert TOKENIZER.decode(tokens[:2]).strip("\ufffd") == ""


def test_a_saved_tokenizer_reads_back_the_same(tmp_path):
    TOKENIZER.save(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    loaded = load_tokenizer(tmp_path)
    text = f"def f(x):\n    return x + 🙂 e\u0301 {END}"
    assert loaded.encode(text) == TOKENIZER.encode(text)
    assert loaded.decode(loaded.encode(text)) == text
    chat = [{"role": "user", "content": text}]
    assert loaded.encode_chat(chat) == TOKENIZER.encode_chat(chat)
    assert (loaded.eos_ids, loaded.pad_id) == (TOKENIZER.eos_ids, TOKENIZER.pad_id)


def test_a_loaded_tokenizer_is_saved_by_copying_its_files(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    TOKENIZER.save(first)
    load_tokenizer(first).save(second)
    written = sorted(path.name for path in first.iterdir())
    assert written == sorted(path.name for path in second.iterdir())
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in written)


def test_a_chat_template_that_asks_is_told_whether_to_think(tmp_path):
    TOKENIZER.save(tmp_path)
    chat = [{"role": "user", "content": "return"}]
    with pytest.raises(UserError, match="its chat template does not ask for enable_thinking; leave that out"):
        load_tokenizer(tmp_path, enable_thinking=False)
    template = "{{ messages[0]['content'] }}{% if enable_thinking is defined and not enable_thinking %} + {% endif %}"
    for file in ("chat_template.jinja", "tokenizer_config.json"):
        (tmp_path / file).unlink(missing_ok=True)
    (tmp_path / "chat_template.jinja").write_text(template)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    for thinks, expected in ((None, "return"), (True, "return"), (False, "return + ")):
        tokenizer = load_tokenizer(tmp_path, enable_thinking=thinks)
        assert tokenizer.decode(tokenizer.encode_chat(chat)) == expected


def test_a_template_that_writes_the_date_writes_the_same_on_every_day():
    dated = micro_tokenizer([])
    dated.hf.chat_template = "{{ strftime_now('%d %b %Y') }}: {{ messages[0]['content'] }}"
    assert dated.decode(dated.encode_chat([{"role": "user", "content": "go"}])) == "26 Jul 2024: go"


def test_a_prompt_begins_with_what_the_tokenizer_puts_there():
    assert TOKENIZER.encode_prompt("return") == TOKENIZER.encode("return")
    begun = micro_tokenizer(["return"])
    template = TemplateProcessing(single=f"{SEPARATOR} $A", special_tokens=[(SEPARATOR, 257)])
    begun.hf.backend_tokenizer.post_processor = template
    assert begun.encode_prompt("return") == (257, *begun.encode("return"))
    assert 257 not in begun.encode("return")


def test_the_tokenizers_own_end_and_all_declared_ones_end_a_response(tmp_path):
    TOKENIZER.save(tmp_path)
    written = tmp_path / "generation_config.json"
    for declared, ends in ((257, (256, 257)), ([258, 256, 257], (256, 258, 257)), (256, (256,)), ([], (256,))):
        written.write_text(json.dumps({"eos_token_id": declared, "top_k": 5}))
        loaded = load_tokenizer(tmp_path)
        assert loaded.eos_ids == ends
        (copy := tmp_path / "copy").mkdir(exist_ok=True)
        loaded.save(copy)  # for servers that read no other file
        saved = json.loads((copy / written.name).read_text())
        assert saved == {"top_k": 5, "pad_token_id": 256, "eos_token_id": ends[0] if len(ends) == 1 else list(ends)}
    written.unlink()
    assert load_tokenizer(tmp_path).eos_ids == (256,)


def test_a_word_outside_ascii_is_refused():
    with pytest.raises(ValueError, match="é"):
        micro_tokenizer(["ok", "é"])
