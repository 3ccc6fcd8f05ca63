"""XLA aborts where XLA_FLAGS has a flag that it does not know, and the flags differ from version to version."""

import os
import subprocess
import sys

import pytest

from codea1_jax.runtime import xla_flags
from codea1_jax.runtime.xla_flags import known_flags


def test_only_the_flags_that_xla_knows_are_kept_and_xla_starts_with_them():
    flags = ("--xla_never_was=1", "--xla_dump_to=", "--xla_nor_was_this=false", "--xla_cpu_enable_fast_math=false")
    known = known_flags(*flags)
    assert known == (flags[1], flags[3])
    start = [sys.executable, "-c", "import jax; jax.devices()"]
    for kept, starts in ((known, True), (flags[:2], False)):
        environment = os.environ | {"XLA_FLAGS": " ".join(kept), "JAX_PLATFORMS": "cpu"}
        started = subprocess.run(start, env=environment, capture_output=True, check=False)
        assert (started.returncode == 0) is starts


def test_what_the_user_has_set_does_not_change_the_answer(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_never_was=2")
    known_flags.cache_clear()
    assert known_flags("--xla_dump_to=") == ("--xla_dump_to=",)


def test_another_failure_to_start_is_not_taken_for_an_unknown_flag(monkeypatch):
    monkeypatch.setattr(xla_flags, "_START_XLA", "import jaxlib.no_such_module")
    known_flags.cache_clear()
    with pytest.raises(RuntimeError, match="no_such_module"):
        known_flags("--xla_dump_to=")
