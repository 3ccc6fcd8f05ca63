"""Shared by all tests: strict JAX, checked array shapes, and a compilation cache that outlives a run."""

import gc
import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from xla_flags import known_flags

# For the processes that tests start; a plugin of pytest's may have imported JAX in this one. Compiling is what tests
# spend their time on.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault(  # which takes a third of the time
    "XLA_FLAGS",
    " ".join(known_flags("--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1")),
)

import hypothesis
import jax

pytest_plugins = ["rows"]

# A suite in the background or under nohup starts with signals that are ignored, and hands that on to what it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No limits by the clock: a busy machine would fail what a quiet one passes.
hypothesis.settings.register_profile(
    "seeded", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("seeded")
gc.set_threshold(100_000, 50, 100)  # compiled programs are many objects: looking through them takes a tenth of the time

ROOT = Path(__file__).parent.parent
SLOW_ROOMS = "training", "plan", "rehearsal", "cli", "models", "doctor", "launch"  # of few tests that take seconds

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # a third of what lowering takes
# Of commands in this process as well, which else keep every program, under the directory that they start in.
COMPILED = os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_traceback_in_locations_limit", 0)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_compilation_cache_dir", COMPILED)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def pytest_configure(config: pytest.Config) -> None:
    """Names a folder for what all workers share, such as the tiny run; it goes with the session."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="codea1-tests-")
        config.add_cleanup(folder.cleanup)
        os.environ["CODEA1_TEST_SESSION"] = folder.name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow rooms come first, a file of each in turn: else one worker still has a file of theirs when there is nothing
    left for the others, and those that begin would all wait for the first tiny run.
    """
    turns: dict[Path, int] = {}
    for path in dict.fromkeys(item.path for item in items):
        turns[path] = sum(other.parent == path.parent for other in turns)
    items.sort(key=lambda item: (item.path.parent.name not in SLOW_ROOMS, turns[item.path]))


@pytest.fixture
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is written to a relative path lands there."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A command that was run in this process, by a test or for many, sends the log to standard error; no test must find
    it there.
    """
    from codea1_jax.cli._output import LOGGED

    def reset() -> None:
        for package in map(logging.getLogger, LOGGED):
            package.level, package.propagate, package.handlers = logging.NOTSET, True, []

    reset()
    yield
    reset()
