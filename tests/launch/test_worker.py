"""Runs the worker's own script: `codea1` and its installer are fake, the processes are real."""

import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_cloud import ROOT, Cloud
from fake_worker import add_worker
from waiting import wait_for

# Trains until there is a file `finish`, and exits with the code in it; saves when asked to stop.
TRAINING = """\
echo "training with $* on $JAX_PLATFORMS"
echo "$JAX_COMPILATION_CACHE_DIR" >compiled
ulimit -Sn >limit
trap 'echo saved; exit 130' TERM
mkdir -p runs/first
while [[ ! -s finish ]]; do sleep 0.05; done
exit "$(cat finish)"
"""
START = "bash worker.sh start gs://mine/runs/first runs/first train micro/a1 --resume"


@pytest.fixture
def worker(cloud: Cloud) -> Iterator[Path]:
    """The home of a worker on which the tree is installed."""
    home = add_worker(cloud, TRAINING)
    shutil.copy(ROOT / "launch" / "worker.sh", home)
    with tarfile.open(home / "source.tar.gz", "w:gz"):
        pass
    do(cloud, "bash worker.sh install tpu")
    yield home
    do(cloud, "bash worker.sh stop")


def do(cloud: Cloud, command: str) -> str:
    code, out, err = cloud.on(0, command)
    assert code == 0, err
    return out


def test_training_is_detached_and_its_end_is_reported(cloud, worker):
    assert do(cloud, "bash worker.sh status") == "training: none\n"
    do(cloud, START)
    assert do(cloud, "bash worker.sh status") == "training: running\n"
    (worker / "finish").write_text("1")
    assert do(cloud, "bash worker.sh logs") == "training with train micro/a1 --resume on tpu\n"
    assert do(cloud, "bash worker.sh status") == "training: exit 1\n"


def test_training_may_open_as_many_files_as_the_hard_limit_allows(cloud, worker):
    do(cloud, f"ulimit -Sn 256; {START}")
    (worker / "finish").write_text("0")
    assert do(cloud, "bash worker.sh logs; ulimit -Hn").splitlines()[1:] == [(worker / "limit").read_text().strip()]


def test_compiled_programs_are_kept_in_the_bucket_unless_the_worker_sets_a_folder(cloud, worker, monkeypatch):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    (worker / "finish").write_text("0")
    for setting, folder in (("", "gs://mine/runs/first/compiled\n"), ("JAX_COMPILATION_CACHE_DIR=/mine ", "/mine\n")):
        do(cloud, f"{setting}{START}")
        do(cloud, "bash worker.sh logs")
        assert (worker / "compiled").read_text() == folder


def test_started_twice_it_trains_once_and_after_its_end_again(cloud, worker):
    for _ in range(2):
        do(cloud, START)
    (worker / "finish").write_text("0")
    assert do(cloud, "bash worker.sh logs").count("training with") == 1
    do(cloud, START)
    assert do(cloud, "bash worker.sh logs").count("training with") == 2
    assert do(cloud, "bash worker.sh status") == "training: exit 0\n"


def test_stopped_training_saves_and_reports_it(cloud, worker):
    do(cloud, START)
    wait_for((worker / "runs" / "first").exists)
    do(cloud, "bash worker.sh stop")
    assert do(cloud, "bash worker.sh logs").endswith("saved\n")
    assert do(cloud, "bash worker.sh status") == "training: exit 130\n"


def test_sigterm_to_every_process_as_in_a_preemption_loses_nothing(cloud, worker):
    do(cloud, START)
    wait_for((worker / "runs" / "first").exists)
    (worker / "runs" / "first" / "config.yaml").touch()
    do(cloud, 'kill -TERM -- "-$(cat .codea1-training/train.pid)"')
    do(cloud, "bash worker.sh logs")  # returns when the process has gone, a moment after it wrote its exit code
    assert do(cloud, "bash worker.sh status") == "training: exit 130\n"
    assert (cloud.bucket("gs://mine/runs/first/run") / "config.yaml").exists()


def test_killed_training_is_reported_as_lost(cloud, worker):
    do(cloud, START)
    wait_for((worker / ".codea1-training" / "codea1.pid").exists)
    do(cloud, 'kill -KILL -- "-$(cat .codea1-training/train.pid)"')
    wait_for(lambda: do(cloud, "bash worker.sh status") == "training: lost\n")


def test_only_a_run_that_this_worker_writes_is_uploaded(cloud, worker):
    (worker / "finish").write_text("0")
    do(cloud, START)
    do(cloud, "bash worker.sh logs")
    assert "upload" not in cloud.verbs
    (worker / "runs" / "first" / "config.yaml").touch()
    do(cloud, START)
    do(cloud, "bash worker.sh logs")
    assert cloud.verbs == ["upload"]
    assert [path.name for path in cloud.bucket("gs://mine/runs/first/run").iterdir()] == ["config.yaml"]


def test_installed_once_for_a_tree_and_a_backend_and_not_while_it_trains(cloud, worker):
    def installations() -> int:
        return (worker / "installations").read_text().count("\n")

    do(cloud, "bash worker.sh install tpu")
    assert installations() == 1
    do(cloud, "bash worker.sh install cuda12")
    assert installations() == 2
    do(cloud, START)
    do(cloud, "bash worker.sh install tpu")
    assert installations() == 2


def test_a_failed_installation_is_repeated(cloud, worker):
    (worker / "broken").touch()
    assert cloud.on(0, "bash worker.sh install cuda12")[0] != 0
    (worker / "broken").unlink()
    do(cloud, "bash worker.sh install cuda12")
    assert (worker / "installations").read_text().splitlines()[-1].endswith("[cuda12]")


def test_workers_and_images_install_with_the_uv_of_the_makefile():
    (pinned,) = set(re.findall(r"uv==[\d.]+", (ROOT / "Makefile").read_text()))
    for path in (ROOT / "launch" / "worker.sh", ROOT / "launch" / "Dockerfile"):
        assert set(re.findall(r"uv==[\d.]+", path.read_text())) == {pinned}, path
