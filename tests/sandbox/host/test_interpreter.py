import pytest

from sandbox import Job, SandboxPool, SandboxUnavailable
from sandbox.host import interpreter


@pytest.fixture
def unreadable(monkeypatch):
    """A host whose every Python lies in a private folder."""
    monkeypatch.setattr(interpreter, "readable_in_jail", lambda path: False)


def test_where_no_python_is_readable_a_copy_serves(unreadable):
    for _ in range(2):  # made, then found again
        found = interpreter.find_interpreter()
        assert found.mounts[0][0].name.startswith("codea1-python-")
    with SandboxPool(workers=1, backend="nsjail") as pool:
        (execution,) = pool.execute([Job("import math, random, typing, json\ndef f(x):\n    return x + 1", ("f(1)",))])
    assert execution.outcomes[0].value == "2"


def test_where_no_copy_can_be_made_one_line_says_what_to_do(unreadable, monkeypatch):
    monkeypatch.setattr(interpreter.tempfile, "gettempdir", lambda: "/proc/nothing")
    with pytest.raises(SandboxUnavailable, match="world-readable"):
        interpreter.find_interpreter()


def test_a_copy_that_somebody_else_could_have_planted_is_not_used(unreadable, monkeypatch, tmp_path):
    monkeypatch.setattr(interpreter.tempfile, "gettempdir", lambda: str(tmp_path))
    planted = tmp_path / interpreter.copy_name()
    planted.mkdir()
    planted.chmod(0o777)
    with pytest.raises(SandboxUnavailable, match="somebody else"):
        interpreter.find_interpreter()
