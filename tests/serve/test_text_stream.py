import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.serve.text import TextStream

TOKENIZER = micro_tokenizer(("return ",))
TEXTS = st.text(alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from("aé界🎉\ufffd")), max_size=12)


def streamed(tokens, cuts, stop=()):
    stream = TextStream(TOKENIZER.decode, stop)
    ends = [*sorted(cuts), len(tokens)]
    pieces = [
        stream.feed(tokens[start:end], last=end == len(tokens)) for start, end in zip([0, *ends], ends, strict=False)
    ]
    return pieces, stream


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.randoms(use_true_random=False))
def test_pieces_join_to_the_text_and_none_splits_a_character(text, chance: random.Random):
    tokens = TOKENIZER.encode(text)
    pieces, _ = streamed(tokens, [chance.randint(0, len(tokens)) for _ in range(4)])
    assert "".join(pieces) == text
    assert text.count("\ufffd") == sum(piece.count("\ufffd") for piece in pieces)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=20), st.randoms(use_true_random=False))
def test_bytes_that_are_no_text_come_out_as_when_decoded_at_once(raw, chance: random.Random):
    by_byte = {TOKENIZER.hf.convert_ids_to_tokens(index): index for index in range(256)}
    alphabet = sorted(by_byte)
    tokens = [by_byte[alphabet[byte]] for byte in raw]
    pieces, _ = streamed(tokens, [chance.randint(0, len(tokens)) for _ in range(3)])
    assert "".join(pieces) == TOKENIZER.decode(tokens)


@settings(max_examples=100, deadline=None)
@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=3), max_size=2), st.integers(0, 12))
def test_text_ends_before_the_first_stop_string(text, stops, cut):
    tokens = TOKENIZER.encode(text)
    pieces, stream = streamed(tokens, [min(cut, len(tokens))], tuple(stops))
    ends = [text.find(stop) for stop in stops if stop in text]
    shown = "".join(pieces)
    assert stream.stopped == bool(ends)
    assert text.startswith(shown)
    assert not any(stop in shown for stop in stops)
    assert shown == (text[: min(ends)] if ends and len(pieces) == 1 else shown) and (ends or shown == text)


@pytest.mark.parametrize(("fed", "shown"), [("ab", ""), ("abx", "abx"), ("xab", "x"), ("aab", "a")])
def test_what_may_begin_a_stop_string_is_held_back(fed, shown):
    stream = TextStream(TOKENIZER.decode, ("abc",))
    assert stream.feed(TOKENIZER.encode(fed), last=False) == shown
    assert stream.feed(TOKENIZER.encode("c"), last=True) == ("" if fed.endswith("ab") else "c")
