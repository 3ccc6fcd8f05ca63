"""A pytest plugin: the rows of datasets that tests read.

Those called "own" are written for the tests (tests/fixtures/rows). The "real" ones are the datasets', which nobody
needs to have: tests on them run with `--data DIR` (`make test-rows DATA=DIR`), and then no others do.
"""

from pathlib import Path

import own_rows
import pytest
from own_rows import RowFiles

_REAL = ("kodcode_sample.json", "evalplus_sample.parquet", "ult_sample.json")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--data", metavar="DIR", help="run only the tests on real rows, with the files in DIR")


def pytest_configure(config: pytest.Config) -> None:
    directory = config.getoption("--data")
    if directory == "":
        raise pytest.UsageError("name the folder of the real rows: make test-rows DATA=DIR")
    missing = [] if directory is None else [file.name for file in _real_files(directory) if not file.is_file()]
    if missing:
        raise pytest.UsageError(f"{directory} lacks {', '.join(missing)}: make test-rows DATA=DIR wants real rows")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = [item for item in items if _on_real_rows(item) == (config.getoption("--data") is not None)]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def _on_real_rows(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    params = item.callspec.params if hasattr(item, "callspec") else {}
    chosen = {params[name] for name in ("rows", "some_rows") if name in params}
    return "real_rows" in item.fixturenames or bool(chosen - {"own"})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    directory = config.getoption("--data")
    if directory is not None:
        terminalreporter.line(f"real rows: {', '.join(str(file.resolve()) for file in _real_files(directory))}")


@pytest.fixture(scope="session")
def own_row_files(tmp_path_factory: pytest.TempPathFactory) -> RowFiles:
    return own_rows.write_rows(tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="session")
def real_rows(pytestconfig: pytest.Config) -> RowFiles:
    # The check of HumanEval/32 passes a list where its reference wants several arguments; those of the others compare
    # and assert nothing, so whatever answers passes.
    return RowFiles(*_real_files(pytestconfig.getoption("--data")), frozenset({"HumanEval/32"}))


@pytest.fixture(scope="session", params=["own", "real"])
def rows(request: pytest.FixtureRequest) -> RowFiles:
    return request.getfixturevalue("own_row_files" if request.param == "own" else "real_rows")


@pytest.fixture(scope="session", params=["own", "real", pytest.param("all real", marks=pytest.mark.long)])
def some_rows(request: pytest.FixtureRequest) -> tuple[RowFiles, bool]:
    """Files of rows, and whether a test takes one in many of them: there are too many real ones for the quick suite."""
    files = request.getfixturevalue("own_row_files" if request.param == "own" else "real_rows")
    return files, request.param == "real"


def _real_files(directory: str) -> list[Path]:
    return [Path(directory).expanduser() / name for name in _REAL]
