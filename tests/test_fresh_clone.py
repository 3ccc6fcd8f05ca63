"""The suite needs nothing beside the repository: no test looks outside it, and it starts where nothing else is."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import rows

ROOT = Path(__file__).parents[1]
NOT_CLONED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "runs", "rehearsals", "_build")


@pytest.fixture
def clone(tmp_path) -> Path:
    """The repository alone in a folder."""
    return Path(shutil.copytree(ROOT, tmp_path / "alone" / "clone", ignore=NOT_CLONED))


def test_the_suite_reads_rows_of_every_dataset_in_an_empty_folder(clone):
    chosen = ("tests/data_pipeline", "-k", "rows_are_read_whole or prepared_or_counted or restored_from")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *chosen]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^4 passed, \d+ deselected", done.stdout, re.MULTILINE), done.stdout
    assert [path.name for path in clone.parent.iterdir()] == ["clone"]


@pytest.mark.parametrize(
    ("directory", "line"),
    [
        ("", "name the folder of the real rows: make test-rows DATA=DIR"),
        ("tests", "tests lacks kodcode_sample.json, evalplus_sample.parquet, ult_sample.json: make test-rows "),
    ],
)
def test_tests_on_real_rows_end_with_one_line_where_there_are_none(directory, line, pytestconfig, monkeypatch):
    monkeypatch.setattr(pytestconfig.option, "data", directory)
    with pytest.raises(pytest.UsageError) as raised:
        rows.pytest_configure(pytestconfig)
    assert str(raised.value).startswith(line) and "\n" not in str(raised.value)


def test_no_test_looks_above_the_repository():
    climbing = re.compile(r"[\"' =]\.\./\w|\bROOT\.parent\b")
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text()
        depth = len(path.relative_to(ROOT).parts)
        levels = [int(level) for level in re.findall(r"__file__\)(?:\.resolve\(\))?\.parents\[(\d+)\]", text)]
        assert max(levels, default=0) < depth, path
        assert path == Path(__file__) or not climbing.search(text), path
