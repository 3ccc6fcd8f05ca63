"""A run's lock in a bucket: one holder, named; a killed one is found out, and a living one is never robbed."""

import json
import os
import threading
from collections.abc import Iterator

import pytest
from gcs_emulator import Emulator, running_emulator

from codea1_jax.common.errors import UserError
from codea1_jax.config import CheckpointConfig, Config, load
from codea1_jax.run import lock as locks
from codea1_jax.run.lock import BucketLock, LockLost
from codea1_jax.run.rundir import RunDir
from codea1_jax.runtime.checkpoints import Checkpoints

DIRECTORY = "gs://bucket/runs/mine"
LOCK = "bucket/runs/mine/run.lock"


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    monkeypatch.setattr(locks, "RENEW_SECONDS", 0.2)
    monkeypatch.setattr(locks, "STALE_SECONDS", 1.5)
    with running_emulator() as emulator:
        for name, value in emulator.environment.items():
            monkeypatch.setenv(name, value)
        yield emulator


def content(emulator: Emulator) -> dict:
    return json.loads(emulator.objects["bucket", "runs/mine/run.lock"].data)


def leave_behind(emulator: Emulator) -> None:
    """What a process leaves that was killed."""
    killed = {"process": 7, "host": "gone", "since": "2026-01-02 03:04:05"}
    emulator.put("bucket", "runs/mine/run.lock", json.dumps(killed).encode())


def test_a_held_lock_is_refused_with_its_holder_and_how_to_break_it(emulator):
    holder = BucketLock(DIRECTORY)
    assert content(emulator)["process"] == os.getpid()
    with pytest.raises(UserError) as refused:
        BucketLock(f"{DIRECTORY}/")
    line = str(refused.value)
    assert line.startswith(f"checkpoint.directory: {DIRECTORY} is in use by process {os.getpid()} on ")
    assert line.endswith(f"(if it no longer runs, delete {DIRECTORY}/run.lock)")
    holder.check()
    holder.release()
    assert emulator.names() == []
    BucketLock(DIRECTORY).release()


def test_the_lock_of_a_killed_process_is_taken_over_after_a_while_and_one_let_go_at_once(emulator, caplog):
    leave_behind(emulator)
    lock = BucketLock(DIRECTORY)
    assert content(emulator)["process"] == os.getpid()
    assert "is locked by process 7 on gone, since 2026-01-02 03:04:05: waiting" in caplog.text
    lock.release()
    leave_behind(emulator)
    waits = []

    def let_go(seconds: float) -> None:
        waits.append(seconds)
        with emulator.lock:
            emulator.objects.clear()

    BucketLock(DIRECTORY, sleep=let_go).release()
    assert len(waits) == 1


def test_of_two_that_find_a_stale_lock_one_takes_it(emulator):
    leave_behind(emulator)
    both_waited = threading.Barrier(2)
    found: list[BucketLock | UserError] = []

    def take() -> None:
        waited = 0.0

        def sleep(seconds: float) -> None:
            nonlocal waited
            waited += seconds
            if waited >= locks.STALE_SECONDS:
                both_waited.wait(100)

        try:
            found.append(BucketLock(DIRECTORY, sleep=sleep))
        except UserError as refused:
            found.append(refused)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (lock,) = [each for each in found if isinstance(each, BucketLock)]
    assert [type(each) for each in found].count(UserError) == 1
    lock.release()


@pytest.mark.parametrize(
    ("change", "by"),
    [
        (leave_behind, "process 7 on gone, since 2026-01-02 03:04:05"),
        (lambda emulator: emulator.objects.clear(), "nobody, its lock deleted"),
    ],
)
def test_who_loses_the_lock_stops_and_does_not_take_it_from_the_next(emulator, change, by):
    lock = BucketLock(DIRECTORY)
    change(emulator)
    before = dict(emulator.objects)
    lock._renewing.join(30)
    with pytest.raises(LockLost, match=f"{DIRECTORY} was taken over by {by}; only one process"):
        lock.check()
    lock.release()
    assert emulator.objects == before


def test_a_run_directory_holds_its_bucket_and_lets_go_of_it(emulator, tmp_path):
    config = load(Config, "micro/a1", ["run.directory=unused"])
    settings = CheckpointConfig(directory=DIRECTORY)
    with RunDir(tmp_path / "one", config, settings, resume=False) as run:
        assert LOCK in emulator.names()
        run.check_saving()
        with pytest.raises(UserError, match="is in use by process"):
            RunDir(tmp_path / "two", config, settings, resume=False)
        RunDir(tmp_path / "two", config, resume=False).__exit__()  # its own lock was let go
    assert LOCK not in emulator.names()


def test_a_run_that_is_refused_lets_go_of_its_bucket(emulator, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoints, "latest", lambda _: 4)
    with pytest.raises(UserError, match="holds the checkpoints of a run; add --resume"):
        RunDir(
            tmp_path / "one",
            load(Config, "micro/a1", ["run.directory=unused"]),
            CheckpointConfig(directory=DIRECTORY),
            resume=False,
        )
    assert LOCK not in emulator.names()
