from collections.abc import Iterator

import pytest

from sandbox import SandboxPool


@pytest.fixture(scope="session")
def pool() -> Iterator[SandboxPool]:
    """For files whose programs need no limits of their own."""
    with SandboxPool(workers=1) as pool:
        yield pool
