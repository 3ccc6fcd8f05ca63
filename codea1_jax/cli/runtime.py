"""What commands share with each other: exit codes, and the cache of compiled programs."""

from __future__ import annotations

import os
from pathlib import Path

DONE = 0
FAILED = 1
BAD_INPUT = 2
STOPPED = 130


def keep_compiled_programs() -> None:
    """Keeps compiled programs between runs, unless the user has said where."""
    import jax

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(Path(".cache/jax").absolute()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
