"""An accelerator's memory that is too small is one line; no other error is taken for it."""

import jax
import jax.numpy as jnp
import pytest

from codea1_jax import cli
from codea1_jax.hosts.device_memory import shortage_named

TOO_MUCH = 1 << 58  # bytes


def allocate(*_: object) -> int:
    return int(jnp.ones(TOO_MUCH, jnp.uint8)[0])


def test_a_shortage_is_one_line_with_its_cure(capsys, monkeypatch):
    monkeypatch.setattr("codea1_jax.cli.presets._run", allocate)
    assert cli.main(["presets"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("codea1: out of device memory (RESOURCE_EXHAUSTED: ") and str(TOO_MUCH) in line
    assert "packing.micro_batch_tokens" in line


def test_another_error_that_speaks_of_one_passes():
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"), shortage_named():
        raise jax.errors.JaxRuntimeError("INTERNAL: after RESOURCE_EXHAUSTED elsewhere")
