"""A model directory that is not whole is refused in one line that names the file."""

import json
import shutil

import jax
import pytest
from qwen_vocabulary import make_tokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from codea1_jax.cli import main
from codea1_jax.common.errors import UserError
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Transformer, init_params
from codea1_jax.models.policy import Policy, pretrained_policy, save_policy
from codea1_jax.models.tokenizer import load_tokenizer, micro_tokenizer
from codea1_jax.models.weights import load_params, write_config
from codea1_jax.training.convert import open_policy

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 3087467144\n"
TOKENIZER = micro_tokenizer(["return"])
CONFIG = Architecture(TOKENIZER.vocab_size, 16, 24, 2, 4, 2, 4)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    policy = Policy(Transformer(CONFIG), TOKENIZER)
    save_policy(directory, policy, init_params(policy.model, jax.random.key(0)), file_bytes=4_000)
    assert len(list(directory.glob("*.safetensors"))) > 1
    return directory


@pytest.fixture
def directory(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "model")


def read(directory):
    source = open_policy(str(directory))
    load_params(directory, source.policy.model)


def truncated(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


FAULTS = {
    "a pointer": lambda path: path.write_text(POINTER),
    "empty": lambda path: path.write_text(""),
    "truncated": truncated,
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 20),
}
FILES = (
    *("config.json", "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json"),
    *("generation_config.json", "*-00002-of-*.safetensors"),
)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("file", FILES)
def test_a_file_that_is_not_whole_is_named(directory, file, fault):
    read(directory)
    (path,) = directory.glob(file)
    FAULTS[fault](path)
    with pytest.raises(UserError) as refused:
        read(directory)
    message = str(refused.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    if fault == "a pointer":
        assert "git lfs pull" in message


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("config.json", "[]", "not a JSON object"),
        ("config.json", '{"model_type": "qwen2"}', "KeyError: 'vocab_size'"),
        ("config.json", '{"model_type": "qwen2", "vocab_size": null}', "TypeError: int"),
        ("model.safetensors.index.json", '{"weight_map": []}', "AttributeError: 'list'"),
        ("tokenizer.json", "{}", "not a tokenizer that can be read"),
        ("generation_config.json", '{"eos_token_id": "256"}', "must be a token's number"),
        ("generation_config.json", '{"eos_token_id": [null]}', "must be a token's number"),
    ],
)
def test_a_file_of_another_form_is_named(directory, file, content, complaint):
    (directory / file).write_text(content)
    with pytest.raises(UserError, match=complaint) as refused:
        read(directory)
    assert str(refused.value).startswith(str(directory / file))


def test_a_tokenizer_that_is_larger_than_the_embedding_is_named(directory):
    micro_tokenizer(["return", "def", "x"]).save(directory)
    with pytest.raises(UserError, match="uses 260 ids, but the model's vocab_size is 259") as refused:
        read(directory)
    assert str(refused.value).startswith(str(directory))


def test_a_tokenizer_without_an_end_is_named(directory):
    (directory / "generation_config.json").unlink()
    settings = json.loads((directory / "tokenizer_config.json").read_text())
    for name in ("eos_token", "pad_token"):
        settings.pop(name)
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match=r"generation_config\.json: no eos_token_id"):
        read(directory)


def test_a_missing_tokenizer_is_named_and_the_command_ends_with_code_2(directory, capsys):
    (directory / "tokenizer.json").unlink()
    assert main(["convert", str(directory), str(directory.parent / "new")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"{directory}: no tokenizer.json, nor vocab.json and merges.txt" in line


def test_without_tokenizer_json_the_vocabulary_and_its_merges_make_the_same_tokenizer(tmp_path):
    """What Qwen's directories hold: both forms of one tokenizer."""
    merges = ("u r", "r e", "re t", "ur n", "ret urn", "Ġ x", "1 2", "Ċ Ċ", "Ã ©")
    tokenizer = make_tokenizer([tuple(merge.split()) for merge in merges])
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for directory in (whole, parts):
        directory.mkdir()
        tokenizer.save(directory)
        architecture = Architecture(tokenizer.vocab_size, 16, 24, 2, 4, 2, 4)
        write_config(directory, architecture, "float32")
    core = json.loads((parts / "tokenizer.json").read_text())["model"]
    (parts / "tokenizer.json").unlink()
    (parts / "vocab.json").write_text(json.dumps(core["vocab"]))
    (parts / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in core["merges"]))
    settings = json.loads((parts / "tokenizer_config.json").read_text())
    settings |= {
        "tokenizer_class": "Qwen2Tokenizer",
        "added_tokens_decoder": {
            str(i): {"content": token.content, "special": True}
            for i, token in tokenizer.hf.added_tokens_decoder.items()
        },
    }
    (parts / "tokenizer_config.json").write_text(json.dumps(settings))
    found, expected = load_tokenizer(parts), load_tokenizer(whole)
    letters = "".join(bytes_to_unicode().values())
    for text in ("def f(x):\n\n    return x + 123", "e\u0301 🙂 <|im_end|>'ll", letters, "  \n \t return  return"):
        assert found.encode(text) == expected.encode(text)
        assert found.decode(found.encode(text)) == expected.decode(expected.encode(text))
    chat = [{"role": "user", "content": "return <|im_start|> x"}]
    assert found.encode_chat(chat) == expected.encode_chat(chat)
    assert (found.eos_ids, found.pad_id, found.vocab_size) == (expected.eos_ids, expected.pad_id, expected.vocab_size)
    assert pretrained_policy(parts).tokenizer.encode("return") == expected.encode("return")


def test_code_in_a_model_directory_is_neither_run_nor_offered(directory, monkeypatch):
    (directory / "tokenizer.json").unlink()
    (directory / "vocab.json").write_text('{"a": 0}')
    (directory / "merges.txt").write_text("#version: 0.2\n")
    mapped = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}}
    (directory / "tokenizer_config.json").write_text(json.dumps(mapped))
    (directory / "own.py").write_text(f"open({str(directory / 'ran')!r}, 'w')\nclass Own: pass\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(UserError, match=r"vocab\.json: not a tokenizer that can be read"):
        load_tokenizer(directory)
    assert not (directory / "ran").exists()
