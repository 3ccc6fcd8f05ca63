"""A run on several hosts: every process runs the same program on the same questions (JAX's multi-controller runtime).

What is computed is split over the mesh; files are written by one process. Whatever the program decides it must decide
alike everywhere, so what one host alone knows (a bad directory, a signal) is shared with all before anybody acts on it
(`gather`, `agreement`).
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import distributed  # its client, which alone knows who is alive, has no public name
from jax.sharding import NamedSharding, PartitionSpec

from codea1_jax.common.errors import Interrupted, UserError
from codea1_jax.runtime.agreement import agreeing
from codea1_jax.runtime.devices import is_shortage, tpus
from codea1_jax.runtime.gather import is_writer
from codea1_jax.runtime.xla_flags import known_flags

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 30  # who is silent for so long is dead
_LOOK_SECONDS = 5.0
_LEAVING_SECONDS = 3 * _LOOK_SECONDS  # in which those who met the same failure, or read of it, leave
_LOST = "codea1/lost"  # where a host that has lost another one writes it for the rest
_HOW_TO_RESUME = "what was saved is good: resume with the same command and --resume, on as many hosts as there are"


class HostLost(OSError):
    """A host has died, or cannot be reached."""


@contextmanager
def joined(coordinator: str | None, count: int | None, index: int | None) -> Iterator[None]:
    """Inside it, this process is one of the run's, by the three keys of `hosts`. Must be entered before JAX is used.

    If another host dies, the process reports it on standard error and exits, within a minute. If it is the first one,
    JAX aborts the process, and a notice of that is left on standard error.
    Raises UserError if the others cannot be reached, HostLost if something computed together fails.
    """
    if coordinator is None and not _in_cluster():
        yield
        return
    _connect(coordinator, count, index)
    over = threading.Event()
    with death_notice(_notice(jax.process_index(), jax.process_count())) as cancel_notice:
        threading.Thread(target=_watch, args=(over, cancel_notice), daemon=True).start()
        try:
            with agreeing(_Board(), jax.process_index(), jax.process_count()):
                yield
                _wait_for_every_device()
            over.set()
            _wait_for_the_others_to_leave(HEARTBEAT_SECONDS)
        except (UserError, Interrupted, KeyboardInterrupt):
            # All hosts know of it, or get the same signal, and exit here.
            _wait_for_the_others_to_come()
            over.set()
            _wait_for_the_others_to_leave(HEARTBEAT_SECONDS)
            raise
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            # A collective whose peer is gone; JAX raises ValueError where it fails before it has begun.
            if "Gloo" not in str(error) if isinstance(error, ValueError) else is_shortage(error):
                raise
            over.set()
            # It need not fail on every host, and JAX aborts those that cannot take leave of the first.
            logger.warning("a collective has failed; the other hosts have %d s to leave", _LEAVING_SECONDS)
            with suppress(jax.errors.JaxRuntimeError):  # it is the first one that is gone
                _Board().write(f"{_LOST}/{jax.process_index()}", f"lost another host; {_HOW_TO_RESUME}")
                _wait_for_the_others_to_leave(_LEAVING_SECONDS)
            raise HostLost(f"lost another host ({str(error).splitlines()[0]}); {_HOW_TO_RESUME}") from error
        finally:
            over.set()
            jax.distributed.shutdown()


def _connect(coordinator: str | None, count: int | None, index: int | None) -> None:
    """Makes this process one of the cluster's. Raises UserError if the others cannot be reached."""
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        # XLA's CPU runtime may start independent collectives in another order on each process, and gloo, which pairs
        # them by their order, then aborts with a mismatch of sizes.
        in_order = known_flags("--xla_cpu_enable_concurrency_optimized_scheduler=false")
        os.environ["XLA_FLAGS"] = " ".join([*os.environ.get("XLA_FLAGS", "").split(), *in_order])
    jax.config.update("jax_enable_recoverability", True)  # else a death elsewhere aborts this process unexplained
    jax.config.update("jax_enable_preemption_service", False)  # it swallows SIGTERM
    try:
        jax.distributed.initialize(
            coordinator,
            count,
            index,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=HEARTBEAT_SECONDS,
        )
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"hosts: the other processes cannot be reached ({reason})") from error


@contextmanager
def death_notice(line: str) -> Iterator[Callable[[], None]]:
    """Inside it, the end of this process prints `line` on standard error, unless the function that it yields is called.

    The process cannot write it itself where it is killed, or aborted by a library. A shell waits for that, at the other
    end of a pipe, in a session of its own, so that Ctrl-C does not end it.
    """
    wait_and_print = 'read -r _ || printf "%s\\n" "$0" >&2'  # `read` fails when the pipe closes without a line
    command = ["/bin/sh", "-c", wait_and_print, line]
    with subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0, start_new_session=True) as shell:
        pipe = shell.stdin
        assert pipe is not None

        def cancel() -> None:
            with suppress(BrokenPipeError):  # the shell has ended
                pipe.write(b"\n")

        try:
            yield cancel
        finally:
            cancel()


def _client() -> Any:
    """JAX's connection to the coordination service, which runs in the first process."""
    client = distributed.global_state.client
    assert client is not None
    return client


class _Board:
    """What hosts send each other through the coordination service."""

    def write(self, key: str, text: str) -> None:
        _client().key_value_set(key, text, allow_overwrite=True)

    def read(self, folder: str) -> dict[str, str]:
        return dict(_client().key_value_dir_get(folder + "/"))

    def erase(self, folder: str) -> None:
        _client().key_value_delete(folder + "/")


def _in_cluster() -> bool:
    step = int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1
    workers = "," in os.environ.get("TPU_WORKER_HOSTNAMES", "")
    return step or workers or (os.environ.get("JAX_PLATFORMS") == "tpu" and tpus()[0] > 0)


def _wait_for_every_device() -> None:
    """All hosts come here, and leave when each device of each has done what it was given.

    `multihost_utils.sync_global_devices` is not enough: it waits for one device of each process. If another device is
    still connecting to its peers when these leave, it waits for ever.
    """
    everywhere = NamedSharding(jax.make_mesh((jax.device_count(),), ("all",)), PartitionSpec("all"))
    ones = jax.make_array_from_callback((jax.device_count(),), everywhere, lambda index: np.ones(1, np.int32))
    jax.block_until_ready(jax.jit(jnp.sum, out_shardings=NamedSharding(everywhere.mesh, PartitionSpec()))(ones))


def _wait_for_the_others_to_come() -> None:
    """No host leaves before all are ready to: one that still closes its judge would consider those that left dead."""
    with suppress(jax.errors.JaxRuntimeError):  # one that does not come
        _client().wait_at_barrier("codea1/the door", HEARTBEAT_SECONDS * 1000)


def _wait_for_the_others_to_leave(seconds: float) -> None:
    """The first process leaves last, because the others wait for it; a dead one is not waited for longer."""
    until = time.monotonic() + seconds
    while is_writer() and len(_alive()) > 1 and time.monotonic() < until:
        time.sleep(0.05)


def _alive() -> Collection[int]:
    """The processes that have not fallen silent."""
    return _client().get_live_nodes(list(range(distributed.global_state.num_processes)))


def _notice(index: int, count: int) -> str:
    return f"codea1: host {index} of {count} has died, or was ended because the first one has; {_HOW_TO_RESUME}"


def _watch(over: threading.Event, cancel_notice: Callable[[], None]) -> None:
    """Ends this process when another has died: what waits for that one would wait forever."""
    count = distributed.global_state.num_processes
    while not over.wait(_LOOK_SECONDS):
        alive = _alive()
        gone = [str(index) for index in range(count) if index not in alive]
        written = list(_Board().read(_LOST).values())
        if (gone or written) and not over.is_set():
            silent = f"host {', '.join(gone)} of {count} is gone; this one stops too; {_HOW_TO_RESUME}"
            print(f"codea1: {silent if gone else written[0]}", file=sys.stderr, flush=True)
            cancel_notice()
            os._exit(1)
