import os
from pathlib import Path

_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_LEAST_SECONDS = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


def keep_compiled_programs() -> None:
    """Keeps every compiled program between runs: in `JAX_COMPILATION_CACHE_DIR`, else in `.cache/jax`.

    Several processes keep theirs only in a folder that the variable names and all of them read: the first process
    writes, and all read at the next start. Must be called once the processes have met and before anything is compiled.
    """
    import jax

    if _FOLDER not in os.environ:
        if jax.process_count() > 1:
            return
        jax.config.update("jax_compilation_cache_dir", str(Path(".cache/jax").absolute()))
    if _LEAST_SECONDS not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if os.environ.get(_FOLDER, "").startswith("gs://"):
        # JAX also names the place to XLA, for the autotuner of GPUs. XLA cannot open a bucket, and would fail.
        jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
