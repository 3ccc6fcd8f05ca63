"""A run on several hosts: every process runs the same program on the same questions (JAX's multi-controller runtime).

What is computed is split over the mesh; files are written by one process. Whatever the program decides it must decide
alike everywhere, so what one host alone knows (a bad directory, a signal) is told to all before anybody acts on it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import jax
import numpy as np
from jax._src import distributed  # its client, which alone knows who is alive, has no public name
from jax.experimental import multihost_utils
from pydantic import Field, model_validator

from codea1_jax.run.agreement import agreeing
from codea1_jax.run.config import ConfigError, Section
from codea1_jax.run.device_memory import is_shortage
from codea1_jax.run.errors import Interrupted

T = TypeVar("T")

HEARTBEAT_SECONDS = 30  # who is silent for so long is dead
_LOOK_SECONDS = 5.0
_LINE_BYTES = 1024
_GO_ON = "what was saved is good: continue with the same command and --resume, on as many hosts as there are"


class HostLost(OSError):
    """A host has died, or cannot be reached."""


class HostsConfig(Section):
    """How the processes of a run find each other; unset, as a SLURM step or a TPU pod says, else there is one."""

    coordinator: str | None = Field(default=None, description="address of the first process, as host:port")
    count: int | None = Field(default=None, ge=1, description="processes")
    index: int | None = Field(default=None, ge=0, description="this process, from 0")

    @model_validator(mode="after")
    def _all_or_none(self) -> HostsConfig:
        if len({value is None for value in (self.coordinator, self.count, self.index)}) > 1:
            raise ValueError("set all of hosts.coordinator, hosts.count and hosts.index, or none")
        return self


@contextmanager
def joined(settings: HostsConfig) -> Iterator[None]:
    """Inside it, this process is one of the run's. Must be entered before JAX is used.

    If another host dies, the process says so on standard error and exits, within a minute. If it is the first one,
    it is JAX that says so and aborts.
    Raises ConfigError if the others cannot be met, HostLost if something computed together fails.
    """
    if settings.coordinator is None and not _in_cluster():
        yield
        return
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        # XLA's CPU runtime may start independent collectives in another order on each process, and gloo, which pairs
        # them by their order, then aborts with a mismatch of sizes.
        in_order = "--xla_cpu_enable_concurrency_optimized_scheduler=false"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {in_order}".strip()
    jax.config.update("jax_enable_recoverability", True)  # else a death elsewhere aborts this process unexplained
    over = threading.Event()
    try:
        jax.distributed.initialize(
            settings.coordinator,
            settings.count,
            settings.index,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=HEARTBEAT_SECONDS,
        )
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"hosts: the other processes cannot be met ({reason})") from error
    threading.Thread(target=_watch, args=(over,), daemon=True).start()
    try:
        with agreeing(_Board(), jax.process_index(), jax.process_count()):
            yield
            multihost_utils.sync_global_devices("the run is over")
        over.set()
        _wait_for_the_others_to_leave()
    except (ConfigError, Interrupted):  # all hosts know of it and leave by this door
        _wait_for_the_others_to_come()
        over.set()
        _wait_for_the_others_to_leave()
        raise
    except jax.errors.JaxRuntimeError as error:
        if is_shortage(error):
            raise
        # A collective whose peer is gone.
        raise HostLost(f"lost another host ({str(error).splitlines()[0]}); {_GO_ON}") from error
    finally:
        over.set()
        jax.distributed.shutdown()


class _Board:
    """What hosts tell each other by JAX's coordination service, which runs in the first of them."""

    def __init__(self) -> None:
        client = distributed.global_state.client
        assert client is not None
        self._client = client

    def write(self, key: str, text: str) -> None:
        self._client.key_value_set(key, text, allow_overwrite=True)

    def read(self, folder: str) -> dict[str, str]:
        return dict(self._client.key_value_dir_get(folder + "/"))

    def erase(self, folder: str) -> None:
        self._client.key_value_delete(folder + "/")


def is_writer() -> bool:
    """Whether this process writes the run's files."""
    return jax.process_index() == 0


def on_all(check: Callable[[], T]) -> T:
    """What `check` returns here; raises ConfigError everywhere if it raises it anywhere."""
    line, value = "", None
    try:
        value = check()
    except ConfigError as error:
        if jax.process_count() == 1:
            raise
        line = str(error)
    refusal = next(filter(None, _lines_of_all(line)), None)
    if refusal is not None:
        raise ConfigError(refusal)
    return value  # pyright: ignore[reportReturnType]


def any_host(here: bool) -> bool:
    """Whether it is so on any host. All must ask at the same point of the program."""
    if jax.process_count() == 1:
        return here
    return bool(np.any(multihost_utils.process_allgather(np.array(here))))


def _lines_of_all(line: str) -> list[str]:
    if jax.process_count() == 1:
        return [line]
    own = np.zeros(_LINE_BYTES, np.uint8)
    encoded = np.frombuffer(line.encode()[:_LINE_BYTES], np.uint8)
    own[: len(encoded)] = encoded
    lines = np.asarray(multihost_utils.process_allgather(own))
    return [bytes(each).rstrip(b"\0").decode(errors="replace") for each in lines]


def _in_cluster() -> bool:
    step = int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1
    workers = "," in os.environ.get("TPU_WORKER_HOSTNAMES", "")
    return step or workers or os.environ.get("JAX_PLATFORMS") == "tpu"


def _wait_for_the_others_to_come() -> None:
    """Nobody leaves before all are at the door: whoever still closes its judge would take those that left for dead."""
    client = distributed.global_state.client
    assert client is not None
    with suppress(jax.errors.JaxRuntimeError):  # one that does not come
        client.wait_at_barrier("codea1/the door", HEARTBEAT_SECONDS * 1000)


def _wait_for_the_others_to_leave() -> None:
    """The first process leaves last, for it is whom the others take leave of."""
    client, count = distributed.global_state.client, distributed.global_state.num_processes
    assert client is not None
    until = time.monotonic() + HEARTBEAT_SECONDS
    while is_writer() and len(client.get_live_nodes(list(range(count)))) > 1 and time.monotonic() < until:
        time.sleep(0.05)


def _watch(over: threading.Event) -> None:
    """Ends this process when another has died: what waits for that one would wait forever."""
    client, count = distributed.global_state.client, distributed.global_state.num_processes
    assert client is not None
    while not over.wait(_LOOK_SECONDS):
        alive = client.get_live_nodes(list(range(count)))
        gone = [str(index) for index in range(count) if index not in alive]
        if gone and not over.is_set():
            print(
                f"codea1: host {', '.join(gone)} of {count} is gone; this one stops too; {_GO_ON}",
                file=sys.stderr,
                flush=True,
            )
            os._exit(1)
