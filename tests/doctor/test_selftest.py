"""A machine that is sound passes; a fault in a kernel is named."""

import json

import jax
import pytest

from codea1_jax.cli import main
from codea1_jax.doctor.selftest import Check, Row, kernel_checks, perform
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.attention import flash_gpu, flash_tpu
from codea1_jax.rollout import paged_gpu, paged_tpu, readers

SHAPE = Architecture(
    vocab_size=64, hidden_size=16, intermediate_size=32, num_layers=1, num_heads=2, num_kv_heads=1, head_dim=8
)


def verdicts(checks, word):
    """By row, of the checks with this word in their names."""
    return {row.name: row.passed for row in perform([check for check in checks if word in check.name])}


def of_kernels(word):
    return verdicts(kernel_checks([SHAPE], jax.devices()[0]), word)


def off_by(share, function):
    """The function, all of whose results are too large by this share."""
    return lambda *given, **settings: jax.tree.map(lambda x: x * (1 + share), function(*given, **settings))


def test_every_kernel_and_cache_is_tried_and_passes():
    found = of_kernels("")
    assert all(found.values())
    for kernel in ("flash attention, gpu", "flash attention, tpu"):
        tried = [name for name in found if name.startswith(kernel)]
        assert [name.rpartition(", ")[2] for name in tried] == ["values", "dq", "dk", "dv"]
    for reader in ("copies", "gpu", "tpu"):
        tried = [name for name in found if name.startswith(f"cache in pages, {reader}, ")]
        assert [name.rpartition(", ")[2] for name in tried] == ["rows", "n = 8", "n = 32"]


@pytest.mark.parametrize(
    ("module", "function", "named", "sound"),
    [
        (flash_gpu, "backward", "flash attention, gpu", {"values"}),
        (flash_tpu, "forward", "flash attention, tpu", set()),
        (paged_gpu, "paged_attention", "cache in pages, gpu", set()),
        (readers, "mix", "cache in pages, copies", set()),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                (flash_gpu, "forward", "flash attention, gpu", set()),
                (flash_tpu, "backward", "flash attention, tpu", {"values"}),
                (paged_tpu, "paged_attention", "cache in pages, tpu", set()),
            )
        ),
    ],
)
def test_a_kernel_that_is_off_by_a_thousandth_is_named(module, function, named, sound, monkeypatch):
    monkeypatch.setattr(module, function, off_by(1e-3, getattr(module, function)))
    found = of_kernels(named)
    assert found and {name.rpartition(", ")[2] for name, passed in found.items() if passed} == sound


def test_a_check_that_cannot_run_fails_and_the_next_one_is_performed():
    def breaks():
        raise ValueError("the kernel\ncannot be compiled")

    rows = perform([Check("first", breaks), Check("second", lambda: [Row("second", True, "1", "1")])])
    assert [(row.name, row.passed, row.measured) for row in rows] == [
        ("first", False, "ValueError: the kernel cannot be compiled"),
        ("second", True, "1"),
    ]


def test_the_command_prints_one_document_and_fails_if_a_check_does(capsys, monkeypatch):
    rows = [Row("sound", True, "1", "1"), Row("broken", False, "1", "2")]
    monkeypatch.setattr("codea1_jax.cli.selftest.checks_for", lambda config: [Check("all", lambda: rows)])
    assert main(["selftest", "micro/a1", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["passed"], document["failed"]) == (["sound"], ["broken"])
    broken = {"name": "broken", "passed": False, "expected": "1", "measured": "2"}
    assert broken.items() <= document["rows"][1].items()
