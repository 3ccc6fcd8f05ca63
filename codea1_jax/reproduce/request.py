"""From what is asked for to a laboratory of the paper's models, or of the tiny one that rehearses them."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from codea1_jax.common.errors import UserError
from codea1_jax.config import Config
from codea1_jax.config.presets import load, preset_names
from codea1_jax.devices.chips import CHIPS, find_hardware
from codea1_jax.reproduce.commands import Command
from codea1_jax.reproduce.paper_lab import FUNCTIONS, KODCODE, PLACES, PROGRAMS, Forecast, PaperLab, Scale, pretrained
from codea1_jax.reproduce.runners import SINGLE_HOST, Here, Launched, Runner
from codea1_jax.reproduce.tiny import PRESETS, SCALE, STEPS, TINY
from configs import hardware_names
from data_pipeline.hub import hub_name
from data_pipeline.storage import PREPARED

LOCAL = "local"
VALIDATION = ("humanevalplus", "mbppplus")  # on which runs validate, and which training data may not overlap
MANIFEST = "manifest.json"
_ASK = "import jax; print(jax.devices()[0].device_kind, len(jax.devices()), sep='\\n')"


@dataclass(frozen=True)
class Request:
    """A model's tables. folder: of runs; hardware: as in v5e:4x4, or "local"; launch: a platform and its options.

    places: where the rows of a dataset are read, where that is not the default. steps: of training; None: the presets'.
    environment: a virtual environment with what BigCodeBench's programs import; None: they import what is installed.
    as_paper, templates: as in `PaperLab`.
    """

    model: str
    folder: Path
    hardware: str
    launch: str | None
    places: Mapping[str, str]
    steps: int | None
    environment: Path | None = None
    as_paper: bool = True
    templates: str | None = None

    @property
    def kind(self) -> str:
        """Of hardware, as the model's presets name it; "" for what is there. Raises UserError if they do not."""
        if self.hardware == LOCAL:
            return ""
        kinds = [kind for kind in hardware_names() if f"{self.model}/a1_{kind}" in preset_names()]
        by_hardware = {load(Config, f"{self.model}/a1_{kind}").hardware: kind for kind in kinds}
        if self.hardware not in by_hardware:
            known = ", ".join(map(str, by_hardware))
            raise UserError(f"--hardware {self.hardware}: presets of {self.model} are laid out for {known}; or {LOCAL}")
        return by_hardware[self.hardware]


def parse_places(words: Iterable[str]) -> dict[str, str]:
    """NAME=PLACE, by name. Raises UserError for an unknown name."""
    known = (KODCODE, *PLACES)
    places = {}
    for word in words:
        name, equals, place = word.partition("=")
        if not equals or not place or name not in known:
            raise UserError(f"--data {word}: write NAME=PLACE, where NAME is one of {', '.join(known)}")
        places[name] = place
    return places


def make_lab(request: Request, forecast: Forecast) -> PaperLab:
    """The laboratory that a request describes. Raises UserError if there are no presets for it, or it contradicts."""
    if request.model == TINY:
        return _rehearsal(request)
    if request.environment is not None and request.launch is not None:
        raise UserError("--environment: hosts that are launched install BigCodeBench's packages; leave it out")
    weights = pretrained(request.model)
    steps = () if request.steps is None else (f"train.steps={request.steps}",)
    return PaperLab(
        model=request.model,
        hardware=request.kind,
        runner=_runner(request),
        weights=weights,
        making_weights=(),
        data=str(PREPARED / KODCODE),
        preparing_data=(_prepare(request.places, PREPARED),),
        places={**PLACES, **_benchmarks(request.places)},
        forecast=forecast,
        scale=Scale(overrides=(*steps, *_validation(request.places))),
        environment=request.environment,
        as_paper=request.as_paper,
        templates=request.templates,
    )


def _rehearsal(request: Request) -> PaperLab:
    if request.hardware != LOCAL or request.launch is not None:
        raise UserError(f"--model {TINY}: it rehearses on this machine; leave --hardware and --launch out")
    if KODCODE not in request.places or not set(VALIDATION) & request.places.keys():
        raise UserError(
            f"--model {TINY}: name rows to train and validate on, as in --data {KODCODE}=rows.json "
            f"{VALIDATION[0]}=problems.parquet"
        )
    data, weights = request.folder / "data", request.folder / "model"
    words = ("python", "-m", "codea1_jax.reproduce.tiny_model", str(weights))
    made = (
        f"model.pretrained={weights}",
        f"data.source={data / KODCODE}",
        f"train.steps={request.steps or STEPS}",
        *_validation(request.places),
    )
    return PaperLab(
        model=PRESETS,
        hardware="",
        runner=Here(request.folder),
        weights=str(weights),
        making_weights=(Command(weights, words, "config.json", "preparation"),),
        data=str(data / KODCODE),
        preparing_data=(_prepare(request.places, data, "--difficulty", "easy", "medium", "hard"),),
        places=_benchmarks(request.places),
        forecast=Forecast({}, {}),
        scale=replace(SCALE, overrides=(*made, *SCALE.overrides)),
        environment=request.environment,
        as_paper=request.as_paper,
        templates=request.templates,
    )


def _runner(request: Request) -> Runner:
    if request.launch is None:
        return Here(request.folder)
    platform, *options = shlex.split(request.launch) or [""]
    if request.hardware == LOCAL:
        raise UserError("--launch: name the hardware, as in --hardware v5e:4x4")
    if platform in ("tpu", "gke") and request.kind not in SINGLE_HOST:
        raise UserError(f"--launch {platform}: {request.hardware} is not a TPU; use slurm or gpu")
    return Launched(platform, tuple(options), request.model, request.kind)


def _prepare(places: Mapping[str, str], folder: Path, *more: str) -> Command:
    """Prepares the training data: rows of the Hub, or the ones that are named."""
    words = ["codea1", "data", "prepare", KODCODE]
    if KODCODE in places:
        against = list(dict.fromkeys(places.get(name, PLACES[name]) for name in VALIDATION if name in places))
        words += ["--source", places[KODCODE], *(["--against", *against] if against else [])]
    if folder != PREPARED:
        words += ["--out", str(folder)]
    return Command(folder / KODCODE, (*words, *more), MANIFEST, "preparation")


def _validation(places: Mapping[str, str]) -> tuple[str, ...]:
    """What makes runs validate on the rows that are named."""
    named = list(dict.fromkeys(places[name] for name in VALIDATION if name in places))
    return (f"eval.datasets=[{', '.join(named)}]",) if named else ()


def _benchmarks(places: Mapping[str, str]) -> dict[str, str]:
    return {name: place for name, place in places.items() if name != KODCODE}


def check_ready(request: Request, tables: Iterable[str]) -> None:
    """Raises UserError, before anything is begun, if rows or the hardware are not there."""
    places = _needed(request, tables)
    for name, place in places.items():
        if hub_name(place) is None and not (Path(place).exists() or any(Path().glob(place))):
            raise UserError(f"--data: {place}: no such file; name the rows, as in --data {name}=PLACE")
    if request.launch is not None and not Path("launch", "__main__.py").exists():
        raise UserError("--launch: there is no launch/ here; run this command in a clone of the project")
    if request.launch is None and request.hardware != LOCAL:
        _check_devices(request.hardware)


def _needed(request: Request, tables: Iterable[str]) -> dict[str, str]:
    """The places that are read, if only by some of the tables."""
    from_user = dict(request.places)
    if request.model == TINY:
        return from_user
    tested = {"tests", "alpha", "components"} & set(tables)
    defaults = {name: place for name, place in PLACES.items() if name in PROGRAMS or (name == FUNCTIONS and tested)}
    return defaults | from_user


def _check_devices(hardware: str) -> None:
    """Raises UserError if this machine has other devices, which only another process may look at: one owns them."""
    asked = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=False)
    kind, count = asked.stdout.strip().splitlines() if asked.returncode == 0 else ("no device that JAX can use", "0")
    wanted = find_hardware(hardware)
    if kind not in CHIPS[wanted.kind].kinds or int(count) != wanted.devices:
        raise UserError(
            f"--hardware {hardware}: this machine has {count} x {kind}; start the hardware with --launch, or use what "
            f"is here with --hardware {LOCAL}"
        )
