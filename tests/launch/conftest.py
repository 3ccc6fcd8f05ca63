"""The fake cloud of tests/launch."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_cloud import ROOT, Cloud

from launch import job


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A working cloud on PATH, and a directory to launch from that has prepared data."""
    (tmp_path / "data" / "kodcode").mkdir(parents=True)
    (tmp_path / "data" / "kodcode" / "dataset_info.json").write_text("{}")
    (tmp_path / "launch").symlink_to(ROOT / "launch")
    monkeypatch.chdir(tmp_path)
    with Cloud(tmp_path) as cloud:
        monkeypatch.setenv("PATH", f"{cloud.bin}:{os.environ['PATH']}")
        monkeypatch.setattr(job, "CODEA1", ("codea1",))  # `codea1 plan` takes minutes
        yield cloud
