"""Policies on disk: in Hugging Face's directories, and in the checkpoints of runs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
from flax import traverse_util
from jax.sharding import Mesh

from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, LoRAConfig, MeshConfig
from codea1_jax.models.decoder import Params, Transformer, flatten
from codea1_jax.models.lora import abstract_trained, attach, merge
from codea1_jax.models.policy import Policy, pretrained_policy, save_policy
from codea1_jax.models.sharding import abstract_sharded, make_mesh
from codea1_jax.models.weights import load_params, resolve, stored_dtype
from codea1_jax.rollout.decode_params import abstract_decode_params, to_decode_params
from codea1_jax.run.rundir import RecordedRun, find_run
from codea1_jax.runtime.checkpoints import Checkpoints
from codea1_jax.training.policies import InitialWeights, make_policy


@dataclass(frozen=True)
class StoredPolicy:
    """A policy on disk: the type its parameters are kept in, and what reads them for a model onto a mesh.

    directory: of the model, if it is not a run's. lora: of a run that trains adapters, which `adapters` reads alone,
    for the base of this digest.
    """

    policy: Policy
    dtype: str
    read: Callable[[Transformer, Mesh], Params]
    directory: Path | None = None
    lora: LoRAConfig | None = None
    adapters: Callable[[str, Mesh], Params] | None = None

    @property
    def fast_dtype(self) -> str:
        """What this host's devices compute fast in, and parameters take no more memory in than they are worth."""
        on_cpu = jax.default_backend() == "cpu"
        return "float32" if on_cpu and self.dtype != "bfloat16" else "bfloat16"

    def decode_params(self, model: Transformer, mesh: Mesh) -> Params:
        """The parameters as a sampler holds them; a directory's are read so at once, and never held twice."""
        if self.directory is None:
            return to_decode_params(model, mesh)(self.read(model, mesh))
        return load_params(self.directory, model, abstract_decode_params(model, mesh))


def open_policy(name: str, role: str | None = None) -> StoredPolicy:
    """A model directory, a Hub id, or the policy named `role` of a run's checkpoint (`run.rundir.find_run`).

    Raises UserError if it is none of these, or if a role is given for what is not a run, or a run has no such role or
    checkpoint.
    """
    if (run := find_run(name)) is not None:
        return _of_run(run, role)
    if role is not None:
        raise UserError(f"--role={role}: {name} is not a run; leave --role out")
    directory = resolve(name)

    def read(model: Transformer, mesh: Mesh) -> Params:
        return load_params(directory, model, abstract_sharded(model, mesh))

    return StoredPolicy(pretrained_policy(directory), stored_dtype(directory), read, directory)


def own_start(start: str | None, name: str, policy: Policy, lora: LoRAConfig | None) -> StoredPolicy | None:
    """What the policy of this name starts from, if `start` names something else than the others start from.

    Raises UserError if it is neither a run nor a model, of another shape or, under LoRA, not adapters of this rank.
    """
    if start is None:
        return None
    source = open_policy(start, name if find_run(start) is not None else None)
    if source.policy.model.architecture != policy.model.architecture:
        raise UserError(f"{name}.start: {start} is a model of another shape")
    if lora is not None and source.lora != lora:
        raise UserError(f"{name}.start: {start} is not a run of adapters with this run's lora")
    return source


def convert(source: StoredPolicy, destination: Path, dtype: str | None = None) -> None:
    """Writes the policy to a new Hugging Face directory, computed over all devices, each of which holds its part once.

    Raises UserError if there is something at the destination, or the parameters are not as the source states them.
    """
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise UserError(f"{destination}: already exists; choose a new directory")
    model = source.policy.model.clone(param_dtype=jnp.dtype(dtype or source.dtype))
    devices = jax.devices()
    mesh = make_mesh(MeshConfig(), devices[: math.gcd(len(devices), model.architecture.hidden_size)])
    params = source.read(model, mesh)
    save_policy(destination, replace(source.policy, model=model), params)


def step_of(run: RecordedRun, checkpoints: Checkpoints) -> int:
    saved = checkpoints.steps()
    if not saved:
        raise UserError(f"{run.place}: the run has no checkpoint yet")
    step = saved[-1] if run.step is None else run.step
    if step not in saved:
        raise UserError(f"{run.place}@{step}: the run has no checkpoint of that step; it has {list(saved)}")
    return step


def _of_run(run: RecordedRun, role: str | None) -> StoredPolicy:
    config = Config.model_validate(run.config)
    where = run.checkpoints
    with Checkpoints(where, read_only=True) as checkpoints:
        step = step_of(run, checkpoints)
        arrays, document = checkpoints.look(step)
    kept = {name.split("/")[0]: dtype for name, (dtype, *_) in arrays.items() if name.split("/")[1] == "params"}
    if role not in kept:
        raise UserError(f"{run.place} is a run: choose one of its policies with --role={'|'.join(sorted(kept))}")

    policy, lora = make_policy(config.models[role]), config.lora

    def read_trained(like: Params) -> Params:
        with Checkpoints(where, read_only=True) as checkpoints:
            return _read_part(checkpoints, step, (role, "params"), like)

    if lora is None:
        return StoredPolicy(policy, kept[role], lambda model, mesh: read_trained(abstract_sharded(model, mesh)))

    trained_on = document["state"]["base"][role]

    def adapters(base: str, mesh: Mesh) -> Params:
        if base != trained_on:
            raise UserError(f"{run.place}: its adapters were trained on another base than this run's model")
        return read_trained(abstract_trained(policy.model, lora, mesh))

    def read(model: Transformer, mesh: Mesh) -> Params:
        base = InitialWeights(config, config.models[role]).lora_base(policy, mesh, trained_on)
        merged = merge(attach(lora, base, adapters(trained_on, mesh)))
        return jax.tree.map(lambda x: x.astype(model.param_dtype), merged)

    return StoredPolicy(policy, policy.model.dtype.name, read, lora=lora, adapters=adapters)


def _read_part(checkpoints: Checkpoints, step: int, place: tuple[str, ...], like: Params) -> Params:
    """The arrays at `place` of a checkpoint's, and nothing else of it. like: the placed shapes and types wanted."""
    saved, _ = checkpoints.look(step)
    shapes = flatten(like)
    as_saved = {}
    for path, wanted in shapes.items():
        dtype = saved.get("/".join((*place, *path)), [wanted.dtype])[0]
        as_saved[*place, *path] = jax.ShapeDtypeStruct(wanted.shape, dtype, sharding=wanted.sharding)
    part = flatten(checkpoints.restore(step, traverse_util.unflatten_dict(as_saved), whole=False)[0])
    # One by one, so that at no time all parameters are there in both types.
    params = {path: part.pop((*place, *path)).astype(wanted.dtype) for path, wanted in shapes.items()}
    return traverse_util.unflatten_dict(params)
