import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import decoders, models
from transformers import PreTrainedTokenizerFast

from codea1_jax.models.tokenizer import Tokenizer, micro_tokenizer
from codea1_jax.serve.text import TextStream, TokenBytes

TOKENIZER = micro_tokenizer(("return ",))
BYTES_OF = TokenBytes(TOKENIZER)
TEXTS = st.text(alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from("aé界🎉\ufffd")), max_size=12)


def streamed(tokens, cuts, stop=()):
    """The pieces of text, how many tokens count, and whether a stop string was found."""
    stream = TextStream(BYTES_OF, stop)
    ends = [*sorted(cuts), len(tokens)]
    fed = [
        stream.feed(tokens[start:end], last=end == len(tokens)) for start, end in zip([0, *ends], ends, strict=False)
    ]
    return [text for text, _ in fed], sum(count for _, count in fed), stream.stopped


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.randoms(use_true_random=False))
def test_pieces_join_to_the_text_and_none_splits_a_character(text, chance: random.Random):
    tokens = TOKENIZER.encode(text)
    pieces, count, _ = streamed(tokens, [chance.randint(0, len(tokens)) for _ in range(4)])
    assert "".join(pieces) == text and count == len(tokens)
    assert text.count("\ufffd") == sum(piece.count("\ufffd") for piece in pieces)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=20), st.randoms(use_true_random=False))
@example(b"\xa9^", random.Random(0))  # half of a surrogate, of which Python's decoder waits for more
@example(b"\xa9^^a", random.Random(0))
def test_bytes_that_are_no_text_come_out_as_when_decoded_at_once(raw, chance: random.Random):
    by_byte = {TOKENIZER.hf.convert_ids_to_tokens(index): index for index in range(256)}
    alphabet = sorted(by_byte)
    tokens = [by_byte[alphabet[byte]] for byte in raw]
    pieces, _, _ = streamed(tokens, [chance.randint(0, len(tokens)) for _ in range(3)])
    assert "".join(pieces) == TOKENIZER.decode(tokens)
    assert b"".join(map(BYTES_OF, tokens)).decode("utf-8", "replace") == TOKENIZER.decode(tokens)


@settings(max_examples=100, deadline=None)
@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=3), max_size=2), st.integers(0, 12))
def test_text_ends_before_the_stop_string_that_is_complete_first(text, stops, cut):
    tokens = TOKENIZER.encode(text)
    pieces, count, stopped = streamed(tokens, [min(cut, len(tokens))], tuple(stops))
    found = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    end, start = min(found, default=(len(text), len(text)))
    assert (stopped, count) == (bool(found), end)
    assert "".join(pieces) == text[:start]


@pytest.mark.parametrize(("fed", "shown"), [("ab", ""), ("abx", "abx"), ("xab", "x"), ("aab", "a")])
def test_what_may_begin_a_stop_string_is_held_back(fed, shown):
    stream = TextStream(BYTES_OF, ("abc",))
    assert stream.feed(TOKENIZER.encode(fed), last=False)[0] == shown
    assert stream.feed(TOKENIZER.encode("c"), last=True)[0] == ("" if fed.endswith("ab") else "c")


def test_a_token_that_reaches_into_a_stop_string_is_shown_with_its_beginning():
    (token,) = TOKENIZER.encode("return ")
    stream = TextStream(BYTES_OF, ("turn",))
    assert stream.feed([token, *TOKENIZER.encode("x")], last=False) == ("re", 1)
    assert stream.stopped


def test_tokens_are_bytes_in_vocabularies_of_pieces_as_well():
    """Whose decoder drops the first space of a text, and whose bytes are written as numbers."""
    pieces = ["\N{LOWER ONE EIGHTH BLOCK}a", "\N{LOWER ONE EIGHTH BLOCK}b", "c", "<0xC3>", "<0xA9>", "<end>"]
    core = RustTokenizer(models.WordLevel({piece: number for number, piece in enumerate(pieces)}, unk_token="c"))
    space = decoders.Replace("\N{LOWER ONE EIGHTH BLOCK}", " ")
    core.decoder = decoders.Sequence([space, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    core.add_special_tokens(["<end>"])
    bytes_of = TokenBytes(Tokenizer(PreTrainedTokenizerFast(tokenizer_object=core), (5,), 5))
    assert [bytes_of(token) for token in range(6)] == [b" a", b" b", b"c", b"\xc3", b"\xa9", b""]
