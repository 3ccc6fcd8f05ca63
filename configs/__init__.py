"""The shipped presets: YAML files, read by `codea1_jax.config.presets`. Their names follow from the files."""

from pathlib import Path

PRESETS = Path(__file__).parent
PARTS = PRESETS / "parts"


def model_names() -> tuple[str, ...]:
    """The models that presets train, smallest first: micro, then by billions of parameters."""
    names = [path.stem for path in PARTS.glob("models/*.yaml")]
    return tuple(sorted(names, key=lambda name: 0.0 if name == "micro" else float(name.removesuffix("b"))))


def hardware_names() -> tuple[str, ...]:
    """The kinds of hardware that models are laid out for: TPUs, then GPUs."""
    kinds = {path.stem.partition("_")[2] for path in PARTS.glob("hardware/*.yaml")}
    return tuple(sorted(kinds, key=lambda kind: (not kind.startswith("v"), kind)))
