"""Conversations under pytest without pandas, which is slow to import and which none of these functions needs."""

import pytest

from codea1_jax.evals import pytest_jobs


@pytest.fixture(scope="module")
def header_without_pandas():
    with pytest.MonkeyPatch.context() as patch:
        header = pytest_jobs.HEADER.replace("pandas, ", "").replace("import pandas as pd\n", "")
        patch.setattr(pytest_jobs, "HEADER", header)
        yield
