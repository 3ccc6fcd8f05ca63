"""Typed configuration: YAML presets that compose, dotted overrides, and errors of one line.

A preset is a YAML file under `configs/`. Its optional key `compose` lists other presets to start from, in order;
later ones win, the file itself wins over them, and `key=value` overrides win over everything.

Presets that are not files are composed by their names: `MODEL/METHOD`, or `MODEL/METHOD_HARDWARE` for hardware that the
model is laid out for; `MODEL/METHOD_paper` and `MODEL/METHOD_paper_HARDWARE` with the original's choices
(`recipes/paper`); `MODEL/METHOD_VARIANT` and `MODEL/METHOD_VARIANT_HARDWARE` with another policy gradient, value of
tests or choice of questions (`parts/variants`). Their parts are under `configs/parts`; in a method's, `$model` stands
for the model's name.
"""

import difflib
import reprlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from codea1_jax.common.errors import UserError
from codea1_jax.config.refusals import describe
from configs import MICROS, PARTS, PRESETS

S = TypeVar("S", bound=BaseModel)

SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # written in C, it is seven times as fast
CONFIG_FILE = "config.yaml"  # of a directory that is named as a preset: what `codea1 init` wrote, or a run
VARIANTS = "parts/variants/"
PAPER = "paper"  # the recipe of the original's choices, and what presets that follow it are called


def load(schema: type[S], preset: str | None, overrides: Iterable[str] = ()) -> S:
    """The resolved configuration of a preset with `key=value` overrides; None: of the overrides alone.

    A preset is a path, a directory with a `config.yaml`, or a name under `configs/`.

    Raises UserError for an unknown preset or key, a wrong type, or an impossible combination.
    """
    tree = {} if preset is None else _tree(preset, Path.cwd(), ())
    for override in overrides:
        _apply(tree, override)
    try:
        return schema.model_validate(tree)
    except ValidationError as error:
        raise UserError("; ".join(_one_line(schema, e) for e in error.errors())) from error


def dump(config: BaseModel) -> str:
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)


def by_key(tree: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {prefix: tree}
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= by_key(value, f"{prefix}.{name}" if prefix else name)
    return flat


@cache
def preset_names() -> tuple[str, ...]:
    """Every shipped preset that can be trained: files two levels down, and what models, methods and hardware make.

    Those with the original's choices are named without hardware, variants for micro/a1 only.
    """
    files = (path.relative_to(PRESETS).with_suffix("").as_posix() for path in PRESETS.glob("*/*.yaml"))
    composed = (name for name, parts in _compositions().items() if _is_named(name, parts))
    return tuple(sorted({*(name for name in files if not name.startswith(("parts/", "recipes/"))), *composed}))


def _is_named(name: str, parts: tuple[str, ...]) -> bool:
    if any(part.startswith(VARIANTS) for part in parts):
        return name.startswith("micro/a1_") and "parts/methods/a1" in parts
    return f"_{PAPER}_" not in name


@cache
def _compositions() -> dict[str, tuple[str, ...]]:
    """The parts of every preset that is composed by its name; the model's first, then the method's."""
    composed: dict[str, tuple[str, ...]] = {}
    variants = [VARIANTS + path.stem for path in PRESETS.glob(f"{VARIANTS}*.yaml")]
    for model in (path.stem for path in PARTS.glob("models/*.yaml")):
        layouts = [path.stem for path in PARTS.glob(f"hardware/{model}_*.yaml")]
        for method in (path.stem for path in PARTS.glob("methods/*.yaml")):
            parts = (f"parts/models/{model}", f"parts/methods/{method}")
            named: dict[str, tuple[str, ...]] = {f"{model}/{method}": parts}
            changes = variants if model in MICROS else [*variants, f"recipes/{PAPER}"]
            named |= {f"{model}/{method}_{Path(change).name}": (*parts, change) for change in changes}
            composed |= named
            for layout in layouts:
                laid_out = f"parts/hardware/{layout}"
                composed |= {f"{name}{layout.removeprefix(model)}": (*own, laid_out) for name, own in named.items()}
    return composed


def _tree(preset: str, relative_to: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    for path in (
        relative_to / preset,
        relative_to / preset / CONFIG_FILE,
        PRESETS / f"{preset}.yaml",
        PRESETS / preset,
    ):
        if path.is_file():
            return _read(path, seen)
    if preset in _compositions():
        parts = _compositions()[preset]
        changes = [Path(part).name for part in parts if part.startswith((VARIANTS, "recipes/"))]
        return _filled(_composed(parts, PRESETS, seen), "-".join([preset.partition("/")[0], *changes]))
    if preset.endswith((".yaml", ".yml")):
        raise UserError(f"{preset}: no such file")
    near = difflib.get_close_matches(preset, preset_names(), n=1)
    hint = f"did you mean {near[0]}?" if near else "`codea1 presets` lists them"
    raise UserError(f"no preset {preset!r}; {hint}")


def _composed(parts: Iterable[str], relative_to: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for part in parts:
        tree = _merge(tree, _tree(part, relative_to, seen))
    return tree


def _filled(tree: dict[str, Any], model: str) -> dict[str, Any]:
    def fill(value: Any) -> Any:
        if isinstance(value, dict):
            return _filled(value, model)
        return value.replace("$model", model) if isinstance(value, str) else value

    return {key: fill(value) for key, value in tree.items()}


def _read(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    if path.resolve() in seen:
        raise UserError(f"{path}: presets compose each other in a circle")
    try:
        own = yaml.load(path.read_text(), Loader=SAFE_LOADER) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(own, dict):
        raise UserError(f"{path}: a preset is a mapping of keys, not {reprlib.repr(own)}")
    parts = own.pop("compose", [])
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise UserError(f"{path}: compose: must be a list of presets, not {parts!r}")
    return _merge(_composed(parts, path.parent, (*seen, path.resolve())), own)


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _apply(tree: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"{override!r} is not an override; write key=value, for example train.steps=10")
    *parents, leaf = key.split(".")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{key}: {text!r} is not a YAML value") from error
    for parent in parents:
        if not isinstance(tree.get(parent), dict):
            tree[parent] = {}
        tree = tree[parent]
    tree[leaf] = value


def _one_line(schema: type[BaseModel], error: Any) -> str:
    key = ".".join(map(str, error["loc"]))
    if error["type"] != "extra_forbidden":
        return f"{key}: {describe(error)}" if key else describe(error)
    near = difflib.get_close_matches(key, keys_of(schema), n=1)
    return f"unknown key {key}" + (f"; did you mean {near[0]}?" if near else "")


def keys_of(schema: type[BaseModel], prefix: str = "") -> list[str]:
    keys = []
    for name, field in schema.model_fields.items():
        keys.append(prefix + name)
        for kind in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                keys += keys_of(kind, f"{prefix}{name}.")
    return keys
