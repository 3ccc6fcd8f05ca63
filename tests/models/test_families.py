"""Every family's config.json states one architecture, or is refused by name."""

import json
from pathlib import Path

import pytest
from transformers import AutoConfig, GenerationConfig

from codea1_jax.common.errors import UserError
from codea1_jax.config import ArchitectureConfig
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.families import FAMILIES, from_scratch, read_architecture, write_architecture
from codea1_jax.models.rope import LinearScaling, Llama3Scaling
from codea1_jax.models.weights import read_config, write_config

FIXTURES = Path(__file__).parents[1] / "fixtures" / "families"
QWEN2 = Architecture(97, 16, 24, 2, 4, 2, 4, rope_theta=1e4, max_position_embeddings=64)


def config_of(name, **changes):
    return json.loads((FIXTURES / name / "config.json").read_text()) | changes


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("qwen3", {"family": "qwen3", "qkv_bias": False, "qk_norm": True, "head_dim": 12}),
        ("llama3", {"family": "llama", "qkv_bias": False, "rope_scaling": Llama3Scaling(4.0, 1.0, 4.0, 16)}),
        ("llama_linear", {"family": "llama", "qkv_bias": False, "rope_scaling": LinearScaling(4.0)}),
        ("smollm3", {"family": "smollm3", "qkv_bias": False, "layers_without_rope": (1,), "rope_scaling": None}),
    ],
)
def test_config_json_states_what_distinguishes_the_family(name, differs):
    architecture = read_config(FIXTURES / name)
    assert {field: getattr(architecture, field) for field in differs} == differs


@pytest.mark.parametrize("name", sorted(path.parent.name for path in FIXTURES.glob("*/config.json")))
def test_transformers_reads_the_same_from_an_exported_config_as_from_its_own(name, tmp_path):
    write_config(tmp_path, read_config(FIXTURES / name), "float32", {"eos_token_id": None, "pad_token_id": None})
    ours, theirs = (AutoConfig.from_pretrained(directory).to_dict() for directory in (tmp_path, FIXTURES / name))
    assert type(AutoConfig.from_pretrained(tmp_path)) is type(AutoConfig.from_pretrained(FIXTURES / name))
    unstated = {"bos_token_id", "_name_or_path"}  # the tokenizer says what begins a text
    assert {key: ours[key] for key in theirs.keys() - unstated} == {
        key: theirs[key] for key in theirs.keys() - unstated
    }


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("qwen3", {"model_type": "gemma3_text"}, "model_type is 'gemma3_text', which is not supported; choose one"),
        ("qwen3", {"use_sliding_window": True}, "use_sliding_window=True is not supported; only False is"),
        ("qwen3", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types of sliding_attention"),
        ("llama3", {"attention_bias": True}, "attention_bias=True"),
        ("llama3", {"mlp_bias": True}, "mlp_bias=True"),
        ("llama3", {"hidden_act": "gelu"}, "hidden_act='gelu' is not supported; only 'silu' is"),
        ("llama3", {"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5"),
        ("llama3", {"partial_rotary_factor": 0.0}, "partial_rotary_factor=0.0 is not supported; only 1.0 is"),
        ("llama3", {"no_rope_layers": [1, 0]}, r"no_rope_layers=\[1, 0\] is not supported"),
        ("llama3", {"quantization_config": {"bits": 4}}, "quantization_config"),
        ("llama3", {"is_encoder_decoder": True}, "is_encoder_decoder=True is not supported"),
        ("llama3", {"per_layer_config": {"0": {"num_attention_heads": 2}}}, "per_layer_config"),
        ("qwen3", {"final_logit_softcapping": 30.0}, "final_logit_softcapping=30.0"),
        ("llama3", {"attention_multiplier": 0.5}, "remove it if it does not change what the model computes"),
        ("mha_tied", {"rope_scaling": {"type": "dynamic", "factor": 4.0}}, "the kinds are default, linear, llama3"),
        ("mha_tied", {"rope_scaling": {"factor": 4.0}}, "RoPE scaling"),
        ("llama_linear", {"rope_parameters": {"rope_type": "linear"}}, "linear has factor"),
        ("mha_tied", {"rope_scaling": {"rope_type": "linear", "factor": 4.0, "mscale": 1.0}}, "linear has factor"),
        ("mha_tied", {"rope_scaling": {"rope_type": "linear", "factor": "4"}}, "not numbers"),
        ("mha_tied", {"num_key_value_heads": 3}, "must be a multiple of num_kv_heads=3"),
        ("mha_tied", {"head_dim": 5}, "must be even"),
    ],
)
def test_what_may_change_the_computation_is_refused_by_name(name, change, complaint):
    document = config_of(name, **change)
    if "rope_scaling" in change:
        del document["rope_parameters"]
    with pytest.raises(ValueError, match=complaint):
        read_architecture(document)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_changes_no_architecture_is_ignored(name):
    classifier = AutoConfig.for_model(
        name, num_labels=3, problem_type="regression", output_hidden_states=True
    ).to_dict()
    written = classifier | GenerationConfig(max_new_tokens=9, top_k=5, repetition_penalty=1.05).to_dict()
    others = {"_experts_implementation": "eager", "_commit_hash": "0a1b", "name_or_path": "me/mine", "torch_dtype": "x"}
    others |= {
        "auto_map": {"AutoModel": "own.Own"},
        "keys_to_ignore_at_inference": ["logits"],
        "output_attentions": True,
    }
    assert read_architecture(written | others) == read_architecture(AutoConfig.for_model(name).to_dict())


def test_both_spellings_of_rope_are_read():
    stated = write_architecture(QWEN2, "float32")
    theta = stated.pop("rope_theta")
    newer = stated | {"rope_parameters": {"rope_type": "default", "rope_theta": theta}}
    assert read_architecture(newer) == read_architecture(write_architecture(QWEN2, "float32")) == QWEN2


@pytest.mark.parametrize(
    "none",
    [
        {"rope_scaling": None},
        {"rope_scaling": {}},
        {"rope_scaling": {"rope_type": "default"}},
        {"rope_scaling": {"type": "default"}},
        {"rope_scaling": {"rope_type": "default", "rope_theta": 1e4}},
        {"rope_parameters": {"rope_theta": 1e4, "rope_type": None}},
    ],
)
def test_a_rope_that_states_the_default_is_not_scaled(none):
    assert read_architecture(write_architecture(QWEN2, "float32") | none) == QWEN2


def test_what_config_json_leaves_out_is_what_transformers_takes():
    sizes = {"hidden_size": 512, "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 8}
    named = {name: AutoConfig.for_model(name, **sizes) for name in FAMILIES}
    for name, config in named.items():
        document = config.to_dict()
        for left_out in ("tie_word_embeddings", "rope_parameters", "head_dim", "layer_types", "no_rope_layers"):
            document.pop(left_out, None)
        found = read_architecture(document)
        assert found.rope_theta == config.rope_parameters["rope_theta"]
        assert found.tie_embeddings == config.tie_word_embeddings
        assert found.head_dim == getattr(config, "head_dim", 512 // 2)
        no_rope = [layer for layer, rope in enumerate(getattr(config, "no_rope_layers", [])) if not rope]
        assert list(found.layers_without_rope) == no_rope == ([3, 7] if name == "smollm3" else [])


def test_a_model_from_scratch_is_of_the_family_that_is_configured():
    qwen3 = from_scratch(ArchitectureConfig(family="qwen3"), 97)
    assert (qwen3.family, qwen3.qk_norm, qwen3.qkv_bias) == ("qwen3", True, False)
    assert from_scratch(ArchitectureConfig(family="smollm3"), 97).layers_without_rope == (3,)
    with pytest.raises(UserError, match=r"model\.architecture: model_type is 'gpt2'"):
        from_scratch(ArchitectureConfig(family="gpt2"), 97)
