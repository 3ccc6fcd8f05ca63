"""The cache of compiled programs: which are kept between starts, and which process compiles them."""

from __future__ import annotations

import inspect
import logging
import os
import platform
import time
from collections.abc import Iterable
from functools import wraps
from pathlib import Path
from typing import Any

from codea1_jax.common.files import write_atomically

_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_LEAST_SECONDS = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
_POLL_SECONDS = 0.05

logger = logging.getLogger(__name__)


def keep_compiled_programs() -> None:
    """Keeps every compiled program between runs: in `JAX_COMPILATION_CACHE_DIR`, else in `.cache/jax`.

    Several processes keep theirs only in a folder that the variable names and all of them read: with a disk each,
    the first would find what it needs and then wait for the others, which compile it again. With
    `JAX_SHARE_BINARY_BETWEEN_HOSTS` one process compiles for all; if they run on CPUs, these must be of one kind.
    Must be called once the processes have met and before anything is compiled.
    """
    import jax

    several = jax.process_count() > 1
    if _FOLDER not in os.environ:
        if several:
            return
        jax.config.update("jax_compilation_cache_dir", str(Path(".cache/jax").absolute()))
    if _LEAST_SECONDS not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if os.environ.get(_FOLDER, "").startswith("gs://"):
        # JAX also names the place to XLA, for the autotuner of GPUs. XLA cannot open a bucket, and would fail.
        jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    write_entries_whole()
    if several:
        _write_from_every_process()
        if _one_process_compiles() and jax.default_backend() == "cpu":
            _read_what_the_first_process_compiles()


def write_entries_whole() -> None:
    """Lets an entry of the cache appear whole or not at all, in place of what was there.

    JAX writes in place and never replaces an entry: one that a kill or a full disk has cut short would be compiled
    again at every start, with a warning. Buckets keep whole objects only; a folder of limited size, which JAX locks,
    is left to it.
    """
    from jax._src.lru_cache import LRUCache  # how entries are written cannot be set

    put_in_place = LRUCache.put

    def put_whole(self: LRUCache, key: str, value: bytes) -> None:
        if self.eviction_enabled or "://" in str(self.path):
            put_in_place(self, key, value)
        else:
            write_atomically(Path(self.path) / f"{key}-cache", value)

    LRUCache.put = put_whole


def _write_from_every_process() -> None:
    """Lets each process write the programs that no other one looks up; JAX writes from the first process alone."""
    from jax._src import compilation_cache, compiler, config  # which process writes cannot be set

    compile_and_write = compiler._compile_and_write_cache

    def compile_and_write_own(backend, computation, devices, options, callbacks, name, key):
        started = time.monotonic()
        executable = compile_and_write(backend, computation, devices, options, callbacks, name, key)
        seconds = time.monotonic() - started
        worth_it = seconds >= config.persistent_cache_min_compile_time_secs.value and not callbacks
        if worth_it and _looked_up_here_alone(backend, devices):
            try:
                compilation_cache.put_executable_and_time(key, name, executable, backend, int(seconds))
            except Exception as error:  # JAX also carries on: what is not kept is compiled again  # noqa: BLE001
                logger.warning("%s is not kept for the next start: %s", name, error)
        return executable

    compiler._compile_and_write_cache = compile_and_write_own


def _one_process_compiles() -> bool:
    """Whether JAX is set to compile in one process what runs on several."""
    from jax._src import config  # of whose settings the public ones have no types

    return config.share_binary_between_hosts.value


def _read_what_the_first_process_compiles() -> None:
    """Lets processes on CPUs compile once what runs on all of them, as JAX itself does on GPUs.

    JAX hashes a CPU's features with the devices of the process, so that no two processes share a key; and where the
    first process finds a program in the folder, it sends nothing, and those that looked earlier would wait in vain.
    """
    from jax._src import cache_key, compilation_cache, compiler, config  # neither key nor who compiles can be set

    hash_own, compile_and_send = cache_key._hash_accelerator_config, compiler._compile_and_share_module
    reads_callbacks = "host_callbacks" in inspect.signature(compiler._cache_read).parameters  # since jax 0.11

    def hash_processor(hash_object, devices):
        if len({device.process_index for device in devices.flat}) == 1:
            hash_own(hash_object, devices)
        else:
            hash_object.update(_processor().encode())

    @wraps(compile_and_send)  # which keeps what it has sent in an attribute of whatever has its name
    def compile_or_read(backend, computation, devices, options, callbacks, client, name, key, first):
        if backend.process_index() == first:
            return compile_and_send(backend, computation, devices, options, callbacks, client, name, key, first)
        deadline = time.monotonic() + config.share_binary_between_hosts_timeout_ms.value / 1000
        while time.monotonic() < deadline:
            executable, _ = compiler._cache_read(name, key, options, backend, devices, *([callbacks] * reads_callbacks))
            if executable is not None:
                return executable
            if (sent := _sent(client, key)) is not None:
                return backend.deserialize_executable(compilation_cache.decompress_executable(sent), devices, options)
            time.sleep(_POLL_SECONDS)
        return compiler._compile_and_write_cache(backend, computation, devices, options, callbacks, name, key)

    cache_key._hash_accelerator_config = hash_processor
    compiler._compile_and_share_module = compile_or_read


def _sent(client: Any, key: str) -> bytes | None:
    """What another process has put under a key in the coordination service; None if it has not yet."""
    from jax.errors import JaxRuntimeError

    try:
        return client.key_value_try_get_bytes(key)
    except JaxRuntimeError as error:
        if "NOT_FOUND" in str(error):
            return None
        raise


def _processor() -> str:
    """What programs that were compiled here are compiled for."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # no Linux
        lines = []
    features = sorted({line for line in lines if line.startswith(("flags", "Features"))})
    return " ".join([platform.machine(), platform.processor(), *features])


def _looked_up_here_alone(backend: Any, devices: Iterable[Any]) -> bool:
    """Whether a program's key is this process's own, and this is not the first process, for which JAX writes.

    A key depends on the devices that the program runs on, but not on GPUs. On CPUs it depends on all devices of the
    process besides, so that every key is a process's own, unless the first one compiles for all.
    """
    here = backend.process_index()
    if here == 0 or backend.platform == "gpu":
        return False
    every_key_is_own = backend.platform == "cpu" and not _one_process_compiles()
    return every_key_is_own or all(device.process_index == here for device in devices)
