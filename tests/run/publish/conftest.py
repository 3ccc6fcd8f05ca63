"""What the tests of publishing share."""

import pytest
from hub_emulator import running_hub
from tiny_run import finish, first_run, start_codea1


@pytest.fixture(scope="session")
def arrived():
    """A Hub to which a run was pushed."""
    with running_hub() as emulator:
        push = ("push", str(first_run()), "me/mine", "--license", "apache-2.0", "--dataset", "--private")
        finish(start_codea1(*push, environment=emulator.environment))
        yield emulator
