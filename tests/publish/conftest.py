"""What the tests of publishing share."""

import pytest
from hub_emulator import running_hub
from tiny_run import first_run

from codea1_jax.cli import main


@pytest.fixture(scope="session")
def arrived():
    """A Hub to which a run was pushed."""
    with running_hub() as emulator:
        assert main(["push", str(first_run()), "me/mine", "--license", "apache-2.0", "--dataset", "--private"]) == 0
    return emulator
