"""The judge that a configuration asks for, and the lengths that prompts share."""

import logging

import pytest

from codea1_jax.assemble import judges, make_judge
from codea1_jax.assemble.players import buckets
from codea1_jax.config import Config
from codea1_jax.run.config import load
from sandbox import Job, SandboxPool, SandboxUnavailable


@pytest.fixture
def no_jail(monkeypatch):
    """A host on which no jail can be made."""

    def pool(workers, backend, limits, preload):
        if backend != "process":
            raise SandboxUnavailable("user namespaces are forbidden")
        return SandboxPool(1, backend, limits, preload)

    monkeypatch.setattr(judges, "SandboxPool", pool)


def test_without_a_jail_the_micro_preset_warns_and_judges_in_plain_processes(no_jail, caplog):
    with caplog.at_level(logging.WARNING), make_judge(load(Config, "micro/a1").sandbox) as pool:
        assert pool.execute([Job("def f(x):\n    return x + 1", ("f(1)",))])[0].outcomes[0].value == "2"
    assert "WITHOUT a jail" in caplog.text
    assert "user namespaces are forbidden" in caplog.text


def test_without_a_jail_and_without_the_fallback_nothing_is_judged(no_jail):
    config = load(Config, "micro/a1", ["sandbox.fallback=none"])
    with pytest.raises(SandboxUnavailable, match="user namespaces"):
        make_judge(config.sandbox)


@pytest.mark.parametrize("longest", [1, 16, 29, 128, 129, 1000, 4096, 8192])
def test_the_last_bucket_is_the_longest_prompt_rounded_up_and_all_are_ascending(longest):
    lengths = buckets(longest)
    assert longest <= lengths[-1] < longest + 16
    assert list(lengths) == sorted(set(lengths))
    assert len(lengths) <= 7
