"""A run on several hosts: every process runs the same program on the same questions (JAX's multi-controller runtime).

What is computed is split over the mesh; files are written by one process. Whatever the program decides it must decide
alike everywhere, so what one host alone knows (a bad directory, a signal) is shared with all before anybody acts on it
(`gather`).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from codea1_jax.common.errors import Interrupted, UserError
from codea1_jax.runtime.devices import is_shortage, tpus

HEARTBEAT_SECONDS = 30  # a host that is silent for that long is dead
IN_ORDER = "--xla_cpu_enable_concurrency_optimized_scheduler=false"


class HostLost(OSError):
    """A host has died, or cannot be reached."""


@contextmanager
def joined(coordinator: str | None, count: int | None, index: int | None) -> Iterator[None]:
    """Inside it, this process is one of the run's, by the three keys of `hosts`. Must be entered before JAX is used.

    If another host dies, JAX reports it and aborts this process within a minute, unless something that they compute
    together fails first. Raises UserError if the others cannot be reached, HostLost for such a failure.
    """
    if coordinator is None and not _in_cluster():
        yield
        return
    _connect(coordinator, count, index)
    try:
        yield
        _wait_for_every_device()
    except (UserError, Interrupted, KeyboardInterrupt):  # all hosts know of it, or get the same signal
        jax.distributed.shutdown()
        raise
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        # A collective whose peer is gone; JAX raises ValueError where it fails before it has begun.
        if "Gloo" not in str(error) if isinstance(error, ValueError) else is_shortage(error):
            raise
        raise HostLost(
            f"lost another host ({str(error).splitlines()[0]}); what was saved is good: resume with the same command "
            "and --resume, on as many hosts as there are"
        ) from error
    jax.distributed.shutdown()  # waits for the others


def _connect(coordinator: str | None, count: int | None, index: int | None) -> None:
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        # XLA's CPU runtime may start independent collectives in another order on each process, and gloo, which pairs
        # them by their order, then aborts with a mismatch of sizes.
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {IN_ORDER}"
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
