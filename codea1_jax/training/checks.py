"""What a run needs of this host: `codea1 doctor PRESET` shows all of it, and training refuses the first lack."""

import importlib.util
import inspect
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax

from codea1_jax.common.errors import UserError
from codea1_jax.config import Config
from codea1_jax.plan.memory import check_fits_here
from codea1_jax.run.rundir import check_same_run, checkpoints_of
from codea1_jax.runtime.gather import on_all
from codea1_jax.runtime.layout import MESH_AXES
from codea1_jax.runtime.storage import check_writable
from codea1_jax.training.sources import check_sources


@dataclass(frozen=True)
class Check:
    """One need of a run. `look` says what is here, or raises UserError: the cause, "; " and the fix."""

    name: str
    look: Callable[[], str]


def run_checks(config: Config, device_count: int, *, resume: bool) -> list[Check]:
    """All that can be found out in seconds, before anything is loaded. device_count: of all hosts."""
    return [
        Check("data", partial(check_sources, config.data)),
        Check("extras", partial(_packages, config)),
        Check("rewards", partial(_rewards, config)),
        Check("mesh", partial(_mesh, config, device_count)),
        Check("device memory", partial(check_fits_here, config)),
        Check("run directory", partial(_directory, config, resume)),
        Check("checkpoints", partial(_checkpoints, config)),
    ]


def check_run(config: Config, *, resume: bool) -> None:
    for check in run_checks(config, jax.device_count(), resume=resume):
        on_all(check.look)


def _packages(config: Config) -> str:
    needed = {
        "wandb": (config.run.wandb is not None, "run.wandb", "leave it unset"),
        "jetstream": (config.rollout.engine == "jetstream", "rollout.engine=jetstream", "set rollout.engine=core"),
    }
    for name, (is_needed, key, without) in needed.items():
        if is_needed and importlib.util.find_spec(name) is None:
            raise UserError(f"{key}: {name} is not installed; pip install 'codea1-jax[{name}]', or {without}")
    return ", ".join(name for name, (is_needed, *_) in needed.items() if is_needed) or "none"


def _rewards(config: Config) -> str:
    named = {"code": config.rewards.code, "test": config.rewards.test}
    for role, function in named.items():
        named_function(f"rewards.{role}", function)
    return ", ".join(f"{role}: {function or 'as configured'}" for role, function in named.items())


def _mesh(config: Config, device_count: int) -> str:
    sizes = config.mesh.shape(device_count)
    return ", ".join(f"{axis} {size}" for axis, size in zip(MESH_AXES, sizes, strict=True))


def _directory(config: Config, resume: bool) -> str:
    path = Path(config.run.directory)
    check_same_run(path, config, resume)
    return f"{path} holds this run, which can be resumed" if path.exists() and any(path.iterdir()) else str(path)


def _checkpoints(config: Config) -> str:
    directory = checkpoints_of(Path(config.run.directory), config.checkpoint)
    check_writable(directory)
    return directory


_executed = cache(runpy.run_path)  # files, once each


def named_function(key: str, named: str | None) -> Callable[..., Any] | None:
    """The function FUNCTION of `FILE.py:FUNCTION`; None for None.

    The file is executed once. Raises UserError, naming `key`, unless it defines such a function of one argument, and
    whatever the file itself raises.
    """
    if named is None:
        return None
    file, _, name = named.rpartition(":")
    path = Path(file).expanduser()
    if path.suffix != ".py" or not path.is_file() or not name:
        raise UserError(f"{key}: {named} is not FILE.py:FUNCTION of a file that is here")
    function = _executed(str(path.resolve())).get(name)
    if not callable(function):
        raise UserError(f"{key}: {path} defines no function {name}")
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError) as error:
        raise UserError(f"{key}: {named} must take what was judged: {error}") from error
    return function
