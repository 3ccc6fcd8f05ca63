"""What a run needs of this host, and whether it is here."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from huggingface_hub import DryRunFileInfo, snapshot_download

import data_pipeline
from codea1_jax.common.chips import find_hardware
from codea1_jax.common.errors import UserError
from codea1_jax.common.words import counted
from codea1_jax.config import Config, ModelConfig, SandboxConfig
from codea1_jax.doctor.host import GIB, Devices, find_disk
from codea1_jax.models.flops import parameters
from codea1_jax.models.stored import PARAMS
from codea1_jax.models.weights import HUB_FILES, INDEX, SINGLE
from codea1_jax.plan.arithmetic.memory import check_fits_here, saved
from codea1_jax.plan.arithmetic.planned_run import model_shape
from codea1_jax.run.rundir import check_same_run, checkpoints_of
from codea1_jax.runtime.layout import MESH_AXES
from codea1_jax.runtime.storage import REMOTE, check_writable
from codea1_jax.training.advice import schedule_advice
from codea1_jax.training.judges import make_judge
from codea1_jax.training.sources import Source, count_questions, sources_of
from data_pipeline import storage
from data_pipeline.hub import hub_name, why_unavailable
from sandbox.host.doctor import Finding, attempt, report, try_out

_VALIDATE = "codea1 data validate FILE"


def find_needs(config: Config, devices: Devices | None) -> Iterator[Finding]:
    """Everything a run of this configuration asks for; what it asks of devices only where there are any."""
    if devices is not None:
        mesh = _mesh(config, devices)
        yield from filter(None, (_hardware(config, devices), mesh, _memory(config) if mesh.works else None))
    yield from (*_packages(config), *_models(config), *_data(config), _directory(config), _saving(config))


def find_judge(settings: SandboxConfig, preload: tuple[str, ...] = ()) -> list[Finding]:
    """The judge of a run: what of it works here, or there; and whether programs may import the packages `preload`."""
    if settings.address:
        return [attempt("judge", lambda: f"{settings.backend} at {settings.address} {_tried(settings, ())}", "")]
    host = report()
    shown = [finding for finding in host.findings if finding.name in ("system", "jail") or finding.works is False]
    unjailed = settings.backend == "process" or (settings.fallback == "process" and not host.jailed)
    if not unjailed:
        names = ", ".join((*settings.preload, *preload))
        loaded = [attempt("preload", lambda: f"{names}: {_tried(settings, preload)}", f"pip install {names}")]
        return [*shown, *(loaded if names and host.jailed else [])]
    why = "sandbox.backend=process" if settings.backend == "process" else "sandbox.fallback=process"
    shown = [replace(finding, works=finding.works or None) for finding in shown]
    return [*shown, Finding("judge", None, f"{why}: programs are judged WITHOUT a jail")]


def _tried(settings: SandboxConfig, preload: tuple[str, ...]) -> str:
    with make_judge(settings.model_copy(update={"workers": 1}), preload) as judge:
        return try_out(judge)


def _hardware(config: Config, devices: Devices) -> Finding | None:
    name = config.hardware
    if name is None:
        return None
    hardware = find_hardware(name)
    kind, count = hardware.platform, hardware.devices
    if (devices.platform, devices.count) == (kind, count):
        return Finding("hardware", True, f"made for {name}: {count} devices")
    detail = f"made for {name}, {count} {kind.upper()} devices; here: {devices.count} of {devices.platform}"
    return Finding("hardware", False, detail, f"run it on {name}, or ask what fits elsewhere: codea1 plan --topology")


def _mesh(config: Config, devices: Devices) -> Finding:
    try:
        sizes = config.mesh.shape(devices.count)
    except UserError as error:
        return Finding("mesh", False, str(error))
    return Finding("mesh", True, ", ".join(f"{axis} {size}" for axis, size in zip(MESH_AXES, sizes, strict=True)))


def _memory(config: Config) -> Finding | None:
    """Whether what nothing can spare fits the devices, where they report what they have."""
    try:
        held = check_fits_here(config)
    except UserError as error:
        return Finding("device memory", False, str(error))
    return None if held is None else Finding("device memory", True, held)


def _packages(config: Config) -> Iterator[Finding]:
    """What is needed and not installed."""
    needed = {"jetstream": config.rollout.engine == "jetstream", "wandb": config.run.wandb is not None}
    without = {"jetstream": "set rollout.engine=core, which draws the same", "wandb": "leave run.wandb unset"}
    for name, is_needed in needed.items():
        if is_needed and importlib.util.find_spec(name) is None:
            fix = f"pip install 'codea1-jax[{name}]', or {without[name]}"
            yield Finding(name, False, f"the run asks for {name}, which is not installed", fix)


def _models(config: Config) -> list[Finding]:
    """Of every model that is trained, once."""
    return list({id(each): each for each in config.by_model(_model).values()}.values())


def _model(model: ModelConfig) -> Finding:
    """The model's shape, and whether its weights are here or available."""
    try:
        size = f"{parameters(model_shape(model)) / 1e6:,.1f} million parameters"
    except UserError as error:
        return Finding("model", False, str(error), "a directory in Hugging Face's form, or a Hub id (owner/name)")
    name = model.pretrained
    if name is None:
        return Finding("model", True, f"{size}, trained from scratch")
    local = Path(name).expanduser()
    if local.is_dir():
        there = any((local / part).exists() for part in (SINGLE, INDEX, PARAMS))
        return Finding("model", there, f"{local}: {size}", "put the weights (*.safetensors) there as well")
    return _on_hub("model", name, "model", [*HUB_FILES])


def _data(config: Config) -> Iterator[Finding]:
    if config.data.source == "micro":
        yield Finding("data", True, f"micro: {config.data.problems} questions, made by the program itself")
    read = [_source(source) for source in sources_of(config.data)]
    yield from read
    if all(finding.works for finding in read):
        yield from _schedule(config)
    for benchmark in config.eval.datasets if config.eval.every else ():
        on_hub = hub_name(benchmark)
        if on_hub is None:
            yield _problems("benchmark", benchmark)
        else:
            yield _on_hub("benchmark", on_hub[0], "dataset", on_hub[1])


def _schedule(config: Config) -> Iterator[Finding]:
    """How many questions and steps a run has, and why it may not show whether it learns."""
    counts, a_step = count_questions(config), config.train.questions
    steps = config.train.total_steps(counts.train)
    questions = f"{counted(counts.train, 'question')} to train on, {counts.heldout} held out"
    detail = f"{questions}; {counted(steps, 'step')} of {a_step}"
    yield Finding("schedule", counts.train >= a_step, detail, f"train.questions={counts.train}, or more questions")
    for line in schedule_advice(config, counts.train, counts.heldout):
        yield Finding("advice", None, line)


def _source(source: Source) -> Finding:
    name = {"data.source": "data", "data.heldout": "held-out data", "data.golden_tests": "golden tests"}[source.key]
    try:
        storage.check(source.place, source.command)
    except ValueError as error:
        return Finding(name, False, str(error), "" if source.command else "name a file that is there")
    return _problems(name, source.place)


def _problems(name: str, source: str) -> Finding:
    """A source of problems, read as a run reads it, except for the references, which are not run."""
    try:
        loaded = data_pipeline.load(source)
    except ValueError as error:
        return Finding(name, False, str(error), f"name a file that is there; what is wrong with one: {_VALIDATE}")
    counts = f"{counted(len(loaded.problems), 'problem')}, {counted(len(loaded.refused), 'row')} refused"
    detail = f"{source}: {counts}; their references not run"
    return Finding(name, bool(loaded.problems), detail, _VALIDATE)


def _on_hub(name: str, repository: str, kind: str, patterns: list[str]) -> Finding:
    """Whether files of the Hub are here, or how much would be downloaded."""
    snapshot = partial(snapshot_download, repository, repo_type=kind, allow_patterns=patterns)
    try:
        files = snapshot(dry_run=True)
    except OSError as error:
        try:
            return Finding(
                name, None, f"{snapshot(local_files_only=True)}: here; the Hub was not asked whether all of it is"
            )
        except OSError:
            fix = "connect this host to huggingface.co, log in there (hf auth login), or name a directory"
            problem = why_unavailable(error)
            return Finding(name, False, f"{repository}: not here, nor available from the Hub: {problem}", fix)
    missing = [file.file_size or 0 for file in files if isinstance(file, DryRunFileInfo) and file.will_download]
    size = f"{sum(missing) / GIB:.2f} GiB to be downloaded" if missing else "downloaded already"
    return Finding(name, bool(files), f"{repository} on the Hub: {size}", "name files that it has")


def _directory(config: Config) -> Finding:
    path = Path(config.run.directory)
    try:
        check_same_run(path, config, resume=True)
    except UserError as error:
        return Finding("run directory", False, str(error))
    if path.exists() and any(path.iterdir()):
        return Finding("run directory", None, f"{path} holds this run already, which can be resumed")
    return find_disk(path, "run directory")


def _saving(config: Config) -> Finding:
    """Whether checkpoints can be written, and on a local disk whether there is room for them."""
    directory = checkpoints_of(Path(config.run.directory), config.checkpoint)
    if directory.startswith(REMOTE):
        try:
            check_writable(directory)
        except UserError as error:
            return Finding("checkpoints", False, str(error))
        return Finding("checkpoints", True, f"{directory}: written to, and cleaned up")
    try:
        size = float(saved(config, config.by_model(model_shape)))
    except UserError:
        size = 0.0  # of a missing model: reported above
    kept = config.checkpoint.keep_last + config.checkpoint.keep_best + 1  # one more while it is being written
    disk = find_disk(Path(directory), "checkpoints", size * kept)
    return replace(disk, detail=f"{disk.detail}; {kept} of {size / GIB:.2f} GiB each at most")
