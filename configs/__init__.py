"""The shipped presets: YAML files, read by `codea1_jax.config.presets`. Their names follow from the files."""

import re
from pathlib import Path

PRESETS = Path(__file__).parent
PARTS = PRESETS / "parts"
PAPERS = "1.5b", "3b", "7b"  # the models that the paper trains: Qwen2.5-Coder
MICROS = "micro", "micro-stream", "micro-hard"  # those of the micro world


def model_names() -> tuple[str, ...]:
    """The models that presets train: the micro world's, then by the billions of parameters that names begin with."""

    def billions(name: str) -> float:
        size = re.match(r"([\d.]+)b", name)
        return float(size[1]) if size else float("inf")

    names = sorted(path.stem for path in PARTS.glob("models/*.yaml"))
    return tuple(sorted(names, key=lambda name: 0.0 if name in MICROS else billions(name)))


def hardware_names() -> tuple[str, ...]:
    """The hardware that models are laid out for, as names of presets end: TPUs, then GPUs."""
    kinds = {path.stem.partition("_")[2] for path in PARTS.glob("hardware/*.yaml")}

    def order(kind: str) -> tuple[bool, str]:
        generation = kind.removeprefix("tpu").removeprefix("v")
        return not generation[0].isdigit(), generation

    return tuple(sorted(kinds, key=order))
