"""What commands share with each other: exit codes, signals, and settings of JAX."""

import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

DONE = 0
FAILED = 1
BAD_INPUT = 2
STOPPED = 130

_ACCELERATOR_VENDORS = {"0x10de", "0x1002", "0x1ae0"}  # on the PCI bus: NVIDIA, AMD, Google
_GPU_MEMORY = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_LEAST_SECONDS = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


@contextmanager
def stopped_after_imports() -> Iterator[None]:
    """Inside it, Ctrl-C and SIGTERM raise KeyboardInterrupt, after imports, in which native modules crash or
    lose it, and after a garbage collection.
    """
    before = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    # nohup ignores some, and whoever calls this from Python may handle them.
    in_main_thread = threading.current_thread() is threading.main_thread()
    numbers = [each for each, handler in before.items() if in_main_thread and signal.getsignal(each) == handler]
    for number in numbers:
        signal.signal(number, _stop_after_imports)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])


def _stop_after_imports(number: int, frame: FrameType | None) -> None:
    collecting = [getattr(callback, "__code__", None) for callback in gc.callbacks]
    codes = [each.f_code for each, _ in traceback.walk_stack(frame)]
    if any(code.co_filename.startswith("<frozen importlib") or code in collecting for code in codes):
        again = threading.Timer(0.05, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
    else:
        signal.default_int_handler(number, frame)


def use_gpus_as_planned() -> None:
    """Lets JAX use nine tenths of a GPU's memory, as plans assume, instead of three quarters; a setting of the user's
    stays. Must be called before JAX meets the devices.
    """
    os.environ.setdefault(_GPU_MEMORY, "0.9")


def leave_out_absent_accelerators(root: Path = Path("/")) -> None:
    """Keeps JAX to the CPU where neither a GPU nor a TPU is here, unless the user has chosen.

    The libraries by which `codea1 plan` compiles for both would look for them and print lines of their own. Must be
    called before JAX is imported.
    """
    devices = ("dev/nvidia*", "dev/dxg", "dev/kfd", "dev/accel*", "dev/vfio/[0-9]*")
    vendors = {path.read_text().strip() for path in root.glob("sys/bus/pci/devices/*/vendor")}
    here = any(True for pattern in devices for _ in root.glob(pattern)) or vendors & _ACCELERATOR_VENDORS
    if sys.platform == "linux" and not here:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")


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
