"""What a run needs of this host, and whether it is here: what the run itself checks, and what it reads first."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from codea1_jax.common.chips import GIB, find_hardware
from codea1_jax.common.errors import UserError
from codea1_jax.common.words import counted
from codea1_jax.config import Config
from codea1_jax.doctor.host import Devices, find_disk
from codea1_jax.models.flops import parameters
from codea1_jax.models.weights import INDEX, SINGLE, SMALL_FILES, resolve
from codea1_jax.plan.memory import saved
from codea1_jax.plan.planned_run import model_shape
from codea1_jax.run.rundir import checkpoints_of
from codea1_jax.runtime.storage import REMOTE
from codea1_jax.training.advice import schedule_advice
from codea1_jax.training.checks import Check, run_checks
from codea1_jax.training.parts import make_judge
from codea1_jax.training.questions import load_benchmarks
from codea1_jax.training.sources import count_questions
from data_pipeline.benchmark import PACKAGES
from sandbox import SandboxError
from sandbox.host.doctor import Finding, try_out


def find_needs(config: Config, devices: Devices | None) -> Iterator[Finding]:
    """Everything a run of this configuration asks for; what it asks of devices only where there are any."""
    checks = run_checks(config, 0 if devices is None else devices.count, resume=True)
    if devices is None:
        checks = [check for check in checks if check.name not in ("mesh", "device memory")]
    elif config.hardware is not None:
        checks.append(Check("hardware", partial(_hardware, config.hardware, devices)))
    checks += [Check("model", partial(_models, config)), Check("judge", partial(_judge, config))]
    if config.eval.every and config.eval.datasets:
        of = ", ".join(config.eval.datasets)
        checks.append(
            Check("benchmarks", lambda: f"{counted(len(load_benchmarks(config).problems), 'problem')} of {of}")
        )
    findings = {check.name: _look(check) for check in checks}
    yield from findings.values()
    if findings["data"].works:
        yield from _schedule(config)
    directory = checkpoints_of(Path(config.run.directory), config.checkpoint)
    if not directory.startswith(REMOTE):
        size = saved(config, config.by_model(model_shape)) if findings["model"].works else 0
        kept = config.checkpoint.keep_last + 1  # one more while it is being written
        yield find_disk(Path(directory), "disk", f"{kept} checkpoints of {size / GIB:.2f} GiB at most", size * kept)


def _look(check: Check) -> Finding:
    try:
        return Finding(check.name, True, check.look())
    except (UserError, SandboxError) as error:
        cause, _, fix = str(error).partition("; ")
        return Finding(check.name, False, cause, fix)


def _hardware(name: str, devices: Devices) -> str:
    hardware = find_hardware(name)
    kind, count = hardware.platform, hardware.devices
    if (devices.platform, devices.count) == (kind, count):
        return f"made for {name}: {count} devices"
    raise UserError(
        f"made for {name}, {count} {kind.upper()} devices, and here are {devices.count} of {devices.platform}; run it "
        f"on {name}, or ask what fits elsewhere: codea1 plan --topology"
    )


def _models(config: Config) -> str:
    described = []
    for model in {model.model_dump_json(): model for model in config.models.values()}.values():
        described.append(f"{parameters(model_shape(model)) / 1e6:,.1f} million parameters")
        if model.pretrained is not None:
            folder = resolve(model.pretrained, SMALL_FILES)
            if Path(model.pretrained).expanduser().is_dir() and not any(
                (folder / part).exists() for part in (SINGLE, INDEX)
            ):
                raise UserError(f"{folder}: no weights; put *.safetensors there as well")
    return ", ".join(described)


def _judge(config: Config) -> str:
    settings, packages = config.sandbox, PACKAGES if config.eval.datasets else ()
    with make_judge(settings.model_copy(update={"workers": 1}), packages) as judge:
        found = try_out(judge)
    unjailed = "process" in (settings.backend, settings.fallback)
    return f"{found} (where no jail can be made: WITHOUT one)" if unjailed else found


def _schedule(config: Config) -> Iterator[Finding]:
    try:
        train, heldout = count_questions(config)
    except UserError as error:
        yield Finding("schedule", False, str(error), "what is wrong with a file: codea1 data validate FILE")
        return
    steps, a_step = config.train.total_steps(train), config.train.questions
    questions = f"{counted(train, 'question')} to train on, {heldout} held out"
    detail = f"{questions}; {counted(steps, 'step')} of {a_step}"
    yield Finding("schedule", train >= a_step, detail, f"train.questions={train}, or more questions")
    for line in schedule_advice(config, train, heldout):
        yield Finding("advice", None, line)
