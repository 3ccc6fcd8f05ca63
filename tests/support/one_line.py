"""Commands that are refused."""

import pytest

from codea1_jax import cli


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that is refused as bad input."""
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("codea1: ")
    assert err.count("\n") == 1
    return err
