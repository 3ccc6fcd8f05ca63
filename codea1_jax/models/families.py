"""Families of models: which `config.json` each reads and writes, as data.

A family is one `Family` in `FAMILIES`. What it does not state is refused by name, so that no model ever computes
something else than it was trained to.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from transformers import GenerationConfig, PreTrainedConfig

from codea1_jax.common.errors import UserError
from codea1_jax.config import ArchitectureConfig
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.rope import SCALINGS, RopeScaling


@dataclass(frozen=True)
class Family:
    """What distinguishes the models of one `model_type`.

    causal_lm: the class in transformers.
    fixed: fields of `config.json` that must have these values, or be missing, and are written.
    qkv_bias, qk_norm: as in `Architecture`.
    rope_interval: every so many layers one has no RoPE, unless `config.json` says which; 0: all have it.
    rope_theta, head_dim, tied: what transformers takes where `config.json` does not say; a head_dim of None is the
    width divided by the heads.
    """

    causal_lm: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    qkv_bias: bool = False
    qk_norm: bool = False
    rope_interval: int = 0
    rope_theta: float = 10_000.0
    head_dim: int | None = None
    tied: bool = False


_NO_BIAS = {"attention_bias": False, "mlp_bias": False}

FAMILIES = {
    # Qwen2, Qwen2.5 and Qwen2.5-Coder
    "qwen2": Family("Qwen2ForCausalLM", {"use_sliding_window": False}, qkv_bias=True),
    "qwen3": Family(
        "Qwen3ForCausalLM", {"attention_bias": False, "use_sliding_window": False}, qk_norm=True, head_dim=128
    ),
    # Llama 2 and 3, SmolLM2, DeepSeek-Coder
    "llama": Family("LlamaForCausalLM", _NO_BIAS),
    "smollm3": Family(
        "SmolLM3ForCausalLM",
        {**_NO_BIAS, "use_sliding_window": False, "no_rope_layer_interval": 4},
        rope_interval=4,
        rope_theta=2_000_000.0,
        tied=True,
    ),
}

_EVERYWHERE = {"hidden_act": "silu"}
# Sizes of `Architecture` that every config.json states, by their names there.
_SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "max_position_embeddings": "max_position_embeddings",
}
_READ = {
    *_SIZES.values(),
    *("model_type", "num_key_value_heads", "head_dim", "rope_theta", "rope_scaling", "rope_parameters"),
    *("rms_norm_eps", "tie_word_embeddings", "layer_types"),
}
# What transformers keeps for every model, of whatever architecture, and how it generates; `use_cache` and the tokens
# that begin and end a text are among the latter.
_COMMON = {
    *(each.name for each in dataclasses.fields(PreTrainedConfig)),
    *(name for name, value in vars(PreTrainedConfig).items() if isinstance(value, property)),
    *GenerationConfig().to_dict(),
} - {"is_encoder_decoder"}
# Other fields that change nothing of what a model computes here: of the families, of code, and of other tools.
_INERT = {
    *("attention_dropout", "initializer_range", "max_window_layers", "pretraining_tp", "sliding_window"),
    *("auto_map", "keys_to_ignore_at_inference", "is_llama_config", "tokenizer_class", "transformers.js_config"),
    *("unsloth_fixed", "unsloth_version"),
}


def from_scratch(config: ArchitectureConfig, vocab_size: int) -> Architecture:
    """The architecture of a model that is trained from scratch. Raises UserError."""
    sizes = config.model_dump(exclude={"family", "words"})
    try:
        return _architecture(_known(config.family), vocab_size=vocab_size, rope_theta=10_000.0, **sizes)
    except ValueError as error:
        raise UserError(f"model.architecture: {error}") from error


def read_architecture(config: Mapping[str, Any]) -> Architecture:
    """The architecture that a Hugging Face `config.json` states (transformers 4 and 5 spell RoPE differently).

    Raises ValueError for a family, or for any field that may change what is computed, that is not supported; KeyError
    for one that is missing.
    """
    name = _known(config.get("model_type"))
    family = FAMILIES[name]
    _refuse_unknown(config, family)
    rope = (config.get("rope_scaling") or {}) | (config.get("rope_parameters") or {})
    sizes: dict[str, Any] = {ours: int(config[theirs]) for ours, theirs in _SIZES.items()}
    heads, rotating = sizes["num_heads"], config.get("no_rope_layers")
    if rotating is not None:  # 1 for each layer with RoPE
        sizes["layers_without_rope"] = tuple(layer for layer in range(sizes["num_layers"]) if not rotating[layer])
    return _architecture(
        name,
        **sizes,
        num_kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or family.head_dim or sizes["hidden_size"] // heads),
        rope_theta=float(rope.get("rope_theta") or config.get("rope_theta") or family.rope_theta),
        rope_scaling=_read_scaling(rope, sizes["max_position_embeddings"]),
        rms_norm_eps=float(config["rms_norm_eps"]),
        tie_embeddings=bool(config.get("tie_word_embeddings", family.tied)),
    )


def write_architecture(architecture: Architecture, dtype: str) -> dict[str, Any]:
    """The Hugging Face `config.json`, in the spelling that transformers 4, 5 and vLLM all read."""
    a, family = architecture, FAMILIES[architecture.family]
    config = {
        "architectures": [family.causal_lm],
        "model_type": a.family,
        **{theirs: getattr(a, ours) for ours, theirs in _SIZES.items()},
        "num_key_value_heads": a.num_kv_heads,
        "head_dim": a.head_dim,
        "rope_theta": a.rope_theta,
        "rms_norm_eps": a.rms_norm_eps,
        "tie_word_embeddings": a.tie_embeddings,
        "torch_dtype": dtype,
        **_EVERYWHERE,
        **family.fixed,
    }
    if a.rope_scaling is not None:
        (kind,) = (kind for kind, scaling in SCALINGS.items() if isinstance(a.rope_scaling, scaling))
        config["rope_scaling"] = {"rope_type": kind} | dataclasses.asdict(a.rope_scaling)
    if family.rope_interval:
        config["no_rope_layers"] = [int(layer not in a.layers_without_rope) for layer in range(a.num_layers)]
    return config


def _architecture(name: str, **fields: Any) -> Architecture:
    family = FAMILIES[name]
    if family.rope_interval:
        without = tuple(range(family.rope_interval - 1, fields["num_layers"], family.rope_interval))
        fields = {"layers_without_rope": without} | fields
    return Architecture(family=name, qkv_bias=family.qkv_bias, qk_norm=family.qk_norm, **fields)


def _known(model_type: Any) -> str:
    if model_type not in FAMILIES:
        raise ValueError(f"model_type is {model_type!r}, which is not supported; choose one of {', '.join(FAMILIES)}")
    return model_type


def _refuse_unknown(config: Mapping[str, Any], family: Family) -> None:
    fixed = {"partial_rotary_factor": 1.0, **_EVERYWHERE, **family.fixed}
    layer_types = set(config.get("layer_types") or ()) - {"full_attention"}
    if layer_types:
        raise ValueError(f"layer_types of {', '.join(sorted(layer_types))} are not supported")
    known = _READ | _COMMON | _INERT | ({"no_rope_layers"} if family.rope_interval else set())
    for name in sorted(name for name in config.keys() - known if not name.startswith("_")):  # which transformers hides
        value, wanted = config[name], fixed.get(name)
        is_off = value is None or value is False or (value == 0 and name not in fixed)
        if not is_off and value != wanted:
            only = f"only {wanted!r} is" if name in fixed else "remove it if it does not change what the model computes"
            raise ValueError(f"{name}={value!r} is not supported; {only}")


def _read_scaling(rope: Mapping[str, Any], longest: int) -> RopeScaling | None:
    stated = {name: value for name, value in rope.items() if value is not None}
    kind = stated.pop("rope_type", None) or stated.pop("type", None) or "default"
    settings = {name: value for name, value in stated.items() if name not in ("rope_theta", "type")}
    if not all(isinstance(value, int | float) for value in settings.values()):
        raise ValueError(f"RoPE scaling {dict(rope)} has settings that are not numbers")
    if kind == "default" and not settings:
        return None
    scaling = SCALINGS.get(kind)
    if scaling is None:
        raise ValueError(f"RoPE scaling {dict(rope)} is not supported; the kinds are default, {', '.join(SCALINGS)}")
    names = [each.name for each in dataclasses.fields(scaling)]
    if "original_max_position_embeddings" in names:
        settings.setdefault("original_max_position_embeddings", longest)
    try:
        return scaling(**settings)
    except TypeError as error:
        raise ValueError(f"RoPE scaling {dict(rope)} is not supported; {kind} has {', '.join(names)}") from error
