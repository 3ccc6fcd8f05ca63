"""The cache of compiled programs: which are kept between starts."""

from __future__ import annotations

import inspect
import os
import platform
import time
from pathlib import Path

from codea1_jax.common.files import write_atomically

_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_LEAST_SECONDS = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
_POLL_SECONDS = 0.05


def keep_compiled_programs() -> None:
    """Keeps every compiled program between runs: in `JAX_COMPILATION_CACHE_DIR`, else in `.cache/jax`.

    Several processes keep theirs only in a folder that the variable names and all of them read: the first process
    writes, and all read at the next start. With `JAX_SHARE_BINARY_BETWEEN_HOSTS` the others wait for what it writes
    instead of compiling the same; if they run on CPUs, these must be of one kind. Must be called once the processes
    have met and before anything is compiled.
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
    if several and jax.default_backend() == "cpu":
        _share_keys()
        if _LEAST_SECONDS not in os.environ:  # else what compiles fast is never written
            _wait_for_the_first_process()


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


def _share_keys() -> None:
    """Lets processes on CPUs read what the first one wrote, as they do on accelerators.

    JAX hashes a CPU's features together with the devices of the process, so that no two processes share a key.
    """
    from jax._src import cache_key  # what a key depends on cannot be set

    hash_devices = cache_key._hash_accelerator_config

    def hash_processor(hash_object, devices):
        if len({device.process_index for device in devices.flat}) == 1:
            hash_devices(hash_object, devices)
        else:
            hash_object.update(_processor().encode())

    cache_key._hash_accelerator_config = hash_processor


def _wait_for_the_first_process() -> None:
    """Has what is set to be compiled in one process for all read from the folder by the others.

    JAX sends it instead, but not what the first process has found in the folder: those that looked a moment earlier,
    before another run wrote it there, would wait in vain.
    """
    from jax._src import compiler, config  # who compiles cannot be set

    seconds = config.share_binary_between_hosts_timeout_ms.value / 1000
    reads_callbacks = "host_callbacks" in inspect.signature(compiler._cache_read).parameters  # since jax 0.11

    def compile_or_read(backend, computation, devices, options, callbacks, client, name, key, first):
        deadline = time.monotonic() + (0 if backend.process_index() == first else seconds)
        while time.monotonic() < deadline:
            executable, _ = compiler._cache_read(name, key, options, backend, devices, *([callbacks] * reads_callbacks))
            if executable is not None:
                return executable
            time.sleep(_POLL_SECONDS)
        return compiler._compile_and_write_cache(backend, computation, devices, options, callbacks, name, key)

    compiler._compile_and_share_module = compile_or_read


def _processor() -> str:
    """What programs that were compiled here are compiled for."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # no Linux
        lines = []
    features = sorted({line for line in lines if line.startswith(("flags", "Features"))})
    return " ".join([platform.machine(), platform.processor(), *features])
