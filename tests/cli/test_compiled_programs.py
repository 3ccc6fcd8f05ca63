"""Compiled programs outlive a start: at the next one the first process, or the only one, compiles nothing."""

from pathlib import Path
from typing import Any

import jax
import pytest
from gcs_emulator import running_emulator
from workers import found_by, start_two

from codea1_jax.cli._runtime import keep_compiled_programs

WORKER = Path(__file__).with_name("compiled_programs_worker.py")
NAMES = ("compilation_cache_dir", "persistent_cache_min_compile_time_secs", "persistent_cache_enable_xla_caches")


def test_two_processes_compile_once_what_runs_on_both_and_keep_it_in_a_bucket(monkeypatch):
    with running_emulator() as emulator:
        for name, value in emulator.environment.items():
            monkeypatch.setenv(name, value)
        starts = [found_by(process) for process in start_two(WORKER, "gs://bucket/first/compiled", devices=2)]
        written = emulator.names("bucket/first/compiled/")
    first, second = ([process[start] for process in starts] for start in ("first", "second"))
    assert all(process["found"] < process["programs"] for process in first)
    assert len(written) >= first[0]["programs"] and second[0]["found"] == second[0]["programs"]
    assert second[1]["found"] >= first[1]["found"]


# --- one process --------------------------------------------------------------------------------------


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch):
    """JAX's own settings, which are as they were afterwards."""
    before = {f"jax_{name}": getattr(jax.config, f"jax_{name}") for name in NAMES}
    for name in NAMES:
        monkeypatch.delenv(f"JAX_{name.upper()}", raising=False)
    yield jax.config
    for name, value in before.items():
        jax.config.update(name, value)


def test_one_process_keeps_every_program_under_the_directory_it_starts_in(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keep_compiled_programs()
    assert settings.jax_compilation_cache_dir == str(tmp_path / ".cache" / "jax")
    assert settings.jax_persistent_cache_min_compile_time_secs == 0


def test_what_the_user_has_set_stays(settings, monkeypatch):
    def values() -> list[Any]:
        return [getattr(settings, f"jax_{name}") for name in NAMES]

    before = values()
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/elsewhere")  # which JAX has read when it was imported
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "7")
    keep_compiled_programs()
    assert values() == before


def test_several_processes_without_a_folder_that_all_read_keep_nothing(settings, monkeypatch):
    before = settings.jax_compilation_cache_dir
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    keep_compiled_programs()
    assert settings.jax_compilation_cache_dir == before


def test_a_bucket_is_not_named_to_xla_which_cannot_open_it(settings, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "gs://bucket/compiled")
    keep_compiled_programs()
    assert settings.jax_persistent_cache_enable_xla_caches == "none"
