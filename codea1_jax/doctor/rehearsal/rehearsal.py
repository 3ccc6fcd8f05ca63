"""The stages of a rehearsal, each of which finds something that would otherwise be found on the bill."""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from jax.sharding import AbstractMesh

from codea1_jax.common.errors import UserError
from codea1_jax.common.files import read_lines, write_atomically
from codea1_jax.config import METHODS, Config, ModelConfig, dump
from codea1_jax.doctor.rehearsal.pod import MOST_PROCESSES, Pod, Running, StageFailed, steps_logged
from codea1_jax.doctor.rehearsal.shrink import STEPS, shrink, shrunk_shape
from codea1_jax.models.policy import write_random_model
from codea1_jax.models.sharding import check_divisible
from codea1_jax.models.tokenizer import FILES, load_tokenizer
from codea1_jax.models.weights import resolve
from codea1_jax.plan.planned_run import model_shape
from codea1_jax.runtime.layout import MESH_AXES
from codea1_jax.runtime.storage import check_writable
from codea1_jax.training.sources import check_sources

RESULT = "rehearsal.json"
STAGE_SECONDS = 1800.0
DONE, STOPPED = 0, 130  # exit codes of a run that ended, and of one that was stopped and can go on
# What no rehearsal can show, and what shows it instead.
NOT_REHEARSED = (
    "the accelerator's own kernels, its memory and its speed: codea1 plan",
    "the weights: they are random here, of a smaller shape",
    "prompts and responses as long as the run's, and more than a few rows at once",
    "the network between hosts, and what the launcher does there: python -m launch ... check",
)


@dataclass(frozen=True)
class Stage:
    name: str
    works: bool
    detail: str
    seconds: float


@dataclass
class Rehearsal:
    """A configuration's rehearsal in a directory of its own.

    reload: the same configuration with these overrides. hosts: of the run; at most MOST_PROCESSES are played here.
    """

    config: Config
    reload: Callable[[Sequence[str]], Config]
    devices: int
    hosts: int
    directory: Path

    def stages(self) -> Iterator[Stage]:
        for name, stage in self._plan():
            began = time.monotonic()
            try:
                works, detail = True, stage()
            except (StageFailed, UserError) as error:
                works, detail = False, str(error)
            yield Stage(name, works, detail, time.monotonic() - began)
            if not works:
                return

    def document(self, stages: Sequence[Stage]) -> dict[str, Any]:
        done = {stage.name for stage in stages}
        return {
            "passed": [stage.name for stage in stages if stage.works],
            "failed": [stage.name for stage in stages if not stage.works],
            "not_exercised": [*(name for name, _ in self._plan() if name not in done), *NOT_REHEARSED],
            "stages": [asdict(stage) for stage in stages],
        }

    def _plan(self) -> list[tuple[str, Callable[[], str]]]:
        policies = METHODS[self.config.method.name].policies
        return [
            ("data", lambda: check_sources(self.config.data)),
            ("mesh", self._mesh),
            ("model", self._models),
            ("settings", self._settings),
            ("checkpoints", self._checkpoints),
            ("first step, SIGTERM in the second", lambda: self._until_stopped("first", 1, self._pod)),
            ("resumed on another mesh, SIGTERM", lambda: self._until_stopped("moved", 2, *self._other_mesh())),
            ("resumed to the end, evaluated, saved", self._to_the_end),
            *((f"export {name}", partial(self._export, name)) for name in policies),
        ]

    # --- before anything runs -----------------------------------------------------------------------------

    def _mesh(self) -> str:
        sizes = self.config.mesh.shape(self.devices)
        for model in self.config.models.values():
            check_divisible(model_shape(model), AbstractMesh(sizes, MESH_AXES))
        arranged = ", ".join(f"{axis} {size}" for axis, size in zip(MESH_AXES, sizes, strict=True))
        return f"{arranged}; {self._pod.processes} processes of {self.devices // self._pod.processes} virtual devices"

    def _models(self) -> str:
        written = []
        for key, model in self._pretrained.items():
            assert model.pretrained is not None
            tokenizer = load_tokenizer(resolve(model.pretrained, FILES))
            shape = shrunk_shape(model_shape(model), self.config.mesh.shape(self.devices))
            if tokenizer.vocab_size > shape.vocab_size:
                raise StageFailed(f"the tokenizer uses {tokenizer.vocab_size} ids, the model has {shape.vocab_size}")
            write_random_model(self.directory / key, shape, tokenizer, jnp.float32)
            written.append(f"{key}: random weights, {shape.vocab_size:,} tokens")
        return "; ".join(written) or "trained from scratch, at its own size"

    def _settings(self) -> str:
        locations: dict[str, Any] = {"run.directory": self._run, "checkpoint.directory": "null"}
        locations |= {f"{key}.pretrained": self.directory / key for key in self._pretrained}
        for name in self.config.models:
            if self.config.learners[name].start is not None:
                own = f"{name}.model"
                locations[f"{name}.start"] = self.directory / (own if own in self._pretrained else "model")
        stated = [f"{key}={location}" for key, location in locations.items()]
        replica, fsdp, _ = self.config.mesh.shape(self.devices)
        rehearsed = self.reload([*shrink(self.config, replica * fsdp), *stated])
        write_atomically(self._preset, dump(rehearsed))
        return str(self._preset)

    def _checkpoints(self) -> str:
        location = self.config.checkpoint.directory
        if location is None:
            return "in the rehearsal's directory"
        check_writable(location)
        return f"{location} can be written to; here they are in the rehearsal's directory"

    # --- the run ------------------------------------------------------------------------------------------

    def _until_stopped(self, name: str, step: int, pod: Pod, overrides: tuple[str, ...] = ()) -> str:
        with self._running(pod, name, *overrides) as running:
            running.wait_for(lambda: steps_logged(self._run) >= step)
            took = running.stop(STOPPED)
        return f"saved and stopped {took:.1f} s after SIGTERM"

    def _to_the_end(self) -> str:
        with self._running(self._pod, "end") as running:
            running.finish(DONE)
        lines = read_lines(self._run / "metrics.jsonl")
        done = max(line["step"] for line in lines if line["kind"] == "train")
        if done != STEPS:
            raise StageFailed(f"the run ended after step {done} of {STEPS}")
        evaluated = [str(line["step"]) for line in lines if line["kind"] == "eval"]
        return f"{STEPS} steps" + (f"; evaluated after steps {' and '.join(evaluated)}" if evaluated else "")

    def _export(self, name: str) -> str:
        one = replace(self._pod, processes=1, devices=1)
        exported, back = (self.directory / f"export-{name}-{which}" for which in ("hf", "again"))
        for arguments in ((str(self._run), str(exported), "--role", name), (str(exported), str(back))):
            with one.running(f"export-{name}", ("convert", *arguments), STAGE_SECONDS) as running:
                running.finish(DONE)
        return f"{exported}, and read again"

    # --- where things are ---------------------------------------------------------------------------------

    @property
    def _pretrained(self) -> dict[str, ModelConfig]:
        own = {f"{name}.model": self.config.learners[name].model for name in self.config.models}
        sections = {"model": self.config.model, **own}
        return {key: model for key, model in sections.items() if model is not None and model.pretrained is not None}

    @property
    def _run(self) -> Path:
        return self.directory / "run"

    @property
    def _pod(self) -> Pod:
        most = min(self.hosts, MOST_PROCESSES, self.devices)
        processes = max(count for count in range(1, most + 1) if self.devices % count == 0)
        return Pod(processes, self.devices, self.directory / "logs", self.directory / "compiled")

    @property
    def _preset(self) -> Path:
        return self.directory / "preset.yaml"

    def _running(self, pod: Pod, name: str, *overrides: str) -> AbstractContextManager[Running]:
        return pod.running(name, ("train", str(self._preset), *overrides, "--resume"), STAGE_SECONDS)

    def _other_mesh(self) -> tuple[Pod, tuple[str, ...]]:
        """A mesh of half as many devices, in one process; of twice as many if their number is odd."""
        sizes: dict[str, int] = dict(zip(MESH_AXES, self.config.mesh.shape(self.devices), strict=True))
        halved = next((axis for axis in ("fsdp", "tensor", "replica") if sizes[axis] % 2 == 0), None)
        sizes |= {"fsdp": 2 * sizes["fsdp"]} if halved is None else {halved: sizes[halved] // 2}
        pod = replace(self._pod, processes=1, devices=math.prod(sizes.values()))
        return pod, tuple(f"mesh.{axis}={size}" for axis, size in sizes.items())


def prepare(directory: Path) -> None:
    """Makes the directory, anew if it holds an earlier rehearsal. Raises UserError if it holds anything else."""
    if directory.exists():
        if not (directory / RESULT).exists():
            raise UserError(f"{directory}: already exists and holds no rehearsal; choose another")
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    write_atomically(directory / RESULT, "{}\n")
