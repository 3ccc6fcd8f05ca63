"""Judges that all tests of evaluation share."""

import pytest

from codea1_jax.evals import pytest_jobs
from sandbox import SandboxPool


@pytest.fixture(scope="session")
def pool():
    with SandboxPool(workers=2) as pool:
        yield pool


@pytest.fixture(scope="session")
def numpy_pool():
    with SandboxPool(workers=2, preload=("numpy", "pytest")) as pool:
        yield pool


@pytest.fixture(scope="module")
def header_without_pandas():
    """Conversations under pytest without pandas, which is slow to import and which none of these functions needs."""
    with pytest.MonkeyPatch.context() as patch:
        header = pytest_jobs.HEADER.replace("pandas, ", "").replace("import pandas as pd\n", "")
        patch.setattr(pytest_jobs, "HEADER", header)
        yield
