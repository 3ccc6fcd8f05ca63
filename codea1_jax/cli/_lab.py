import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, read_templates
from codea1_jax.config.presets import load, preset_names
from codea1_jax.reproduce.commands import Command
from codea1_jax.reproduce.micro_lab import MicroLab
from codea1_jax.reproduce.paper_lab import FUNCTIONS, KODCODE, PLACES, PROGRAMS, PaperLab, pretrained
from configs import MICROS, hardware_names
from data_pipeline.hub import hub_name
from data_pipeline.storage import PREPARED

LOCAL = "local"
VALIDATION = ("humanevalplus", "mbppplus")  # on which runs validate, and which training data may not overlap
MANIFEST = "manifest.json"


def make_lab(options: argparse.Namespace) -> MicroLab | PaperLab:
    """The laboratory that the options describe. Raises UserError where they contradict, or no preset fits them."""
    return micro_lab(options) if options.model in MICROS else paper_lab(options)


def micro_lab(options: argparse.Namespace) -> MicroLab:
    if options.hardware or options.data or options.environment or options.as_ or options.templates:
        raise UserError(
            f"--model {options.model}: the micro world takes no --hardware, --data, --environment, --as or "
            "--templates; choose another model"
        )
    questions = options.questions or 256
    return MicroLab(options.out, options.steps or 40, questions, options.heldout or questions, options.model)


def paper_lab(options: argparse.Namespace) -> PaperLab:
    if options.hardware is None and not options.dry_run:
        raise UserError(f"--hardware: name it, as in v5e:4x4 or h100:8; {LOCAL} takes whatever devices are here")
    if options.questions or options.heldout:
        raise UserError("--questions, --heldout: only the micro world's can be chosen; leave them out")
    if options.templates:
        read_templates(options.templates)
    places = _named_places(options.data)
    validation = list(dict.fromkeys(places[name] for name in VALIDATION if name in places))
    steps = () if options.steps is None else (f"train.steps={options.steps}",)
    return PaperLab(
        model=options.model,
        hardware=_kind(options),
        folder=options.out,
        weights=pretrained(options.model),
        data=str(PREPARED / KODCODE),
        preparing_data=(prepare(places),),
        places=PLACES | {name: place for name, place in places.items() if name != KODCODE},
        overrides=(*steps, *((f"eval.datasets=[{', '.join(validation)}]",) if validation else ())),
        environment=options.environment,
        as_paper=options.as_ != "ours",
        templates=options.templates,
    )


def _named_places(words: Iterable[str]) -> dict[str, str]:
    known = (KODCODE, *PLACES)
    places = {}
    for word in words:
        name, equals, place = word.partition("=")
        if not equals or not place or name not in known:
            raise UserError(f"--data {word}: write NAME=PLACE, where NAME is one of {', '.join(known)}")
        places[name] = place
    return places


def _kind(options: argparse.Namespace) -> str:
    if options.hardware in (None, LOCAL):
        return ""
    kinds = [kind for kind in hardware_names() if f"{options.model}/a1_{kind}" in preset_names()]
    by_hardware = {load(Config, f"{options.model}/a1_{kind}").hardware: kind for kind in kinds}
    if options.hardware not in by_hardware:
        known = ", ".join(map(str, by_hardware))
        raise UserError(
            f"--hardware {options.hardware}: presets of {options.model} are laid out for {known}; or {LOCAL}"
        )
    return by_hardware[options.hardware]


def prepare(places: Mapping[str, str]) -> Command:
    words = ["codea1", "data", "prepare", KODCODE]
    if KODCODE in places:
        against = list(dict.fromkeys(places[name] for name in VALIDATION if name in places))
        words += ["--source", places[KODCODE], *(["--against", *against] if against else [])]
    return Command(PREPARED / KODCODE, tuple(words), MANIFEST, "preparation")


def check_ready(options: argparse.Namespace) -> None:
    """Raises UserError, before anything is begun, if rows are not there."""
    tested = {"tests", "alpha", "components"} & set(options.tables)
    read = {name: place for name, place in PLACES.items() if name in PROGRAMS or (name == FUNCTIONS and tested)}
    for name, place in (read | _named_places(options.data)).items():
        if hub_name(place) is None and not (Path(place).exists() or any(Path().glob(place))):
            raise UserError(f"--data: {place}: no such file; name the rows, as in --data {name}=PLACE")
