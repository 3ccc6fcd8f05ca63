"""What goes wrong with one task is told to whoever waits for it, and costs no other task anything."""

import struct
import threading
from concurrent.futures import CancelledError, Future

import pytest

from sandbox import Job, JudgeJob, Limits, SandboxError, SandboxPool, Test, Tolerance
from sandbox.host import worker_thread
from sandbox.host.backlog import Backlog
from sandbox.host.progress import Progress
from sandbox.host.worker import WorkerDied
from sandbox.judge import then

HONEST = Job("def f(x):\n    return x * 2\n", ("f(1)",))
CURSED = Job("def f(x):\n    return x * 3\n", ("f(1)",))
JOBS = [HONEST, HONEST, CURSED, HONEST, CURSED, *[HONEST] * 15]
SLOW = Job("def f():\n    while True: pass", ("f()",), Limits(call_seconds=0.3))


def fails(error: Exception):
    """A method of Progress that raises for the cursed job alone."""

    def wrap(method):
        def attempt(self: Progress, *args):
            if self.job == CURSED:
                raise error
            return method(self, *args)

        return attempt

    return wrap


@pytest.mark.parametrize("method", ["request", "absorb"])
@pytest.mark.parametrize(
    "error",
    [
        struct.error("required argument is not a float"),
        OverflowError("inf"),
        ValueError("unmarshallable"),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_fails_its_task_and_no_other(jail: SandboxPool, monkeypatch, method: str, error: Exception):
    monkeypatch.setattr(Progress, method, fails(error)(getattr(Progress, method)))
    for job, future in [(job, jail.submit(job)) for job in JOBS]:
        if job == CURSED:
            with pytest.raises(SandboxError, match=f"ended this job: {type(error).__name__}"):
                future.result(timeout=100)
        else:
            assert future.result(timeout=100).outcomes[0].value == "2"
    assert (jail.working, jail.restarts) == (2, 0)


def test_a_host_without_descriptors_for_a_moment_fails_only_the_tasks_of_that_moment(jail: SandboxPool, monkeypatch):
    made = []

    def memory_file(content: bytes = b""):
        made.append(content)
        if len(made) in (3, 6):
            raise OSError(24, "Too many open files")
        return original(content)

    original = worker_thread.memory_file
    monkeypatch.setattr(worker_thread, "memory_file", memory_file)
    errors = [future.exception(timeout=100) for future in [jail.submit(HONEST) for _ in range(20)]]
    assert sorted(map(type, errors), key=str) == [type(None)] * 18 + [SandboxError] * 2
    assert any("cannot continue judging: [Errno 24]" in str(error) for error in errors)
    assert jail.execute([HONEST])[0].valid


def test_a_job_that_no_worker_survives_costs_its_neighbours_in_the_pipeline_nothing(monkeypatch):
    receive = worker_thread.Worker.receive

    def dies(self, timeout):
        report = receive(self, timeout)
        if report.wait_status == 57 << 8:
            raise WorkerDied("as if the zygote had died")
        return report

    monkeypatch.setattr(worker_thread.Worker, "receive", dies)
    deadly = Job("import os\ndef f(x):\n    os._exit(57)\n", ("f(1)",))
    with SandboxPool(workers=1) as pool:
        futures = [pool.submit(job) for job in [HONEST, deadly, HONEST, deadly, HONEST, HONEST]]
        for index, future in enumerate(futures):
            if index in (1, 3):
                with pytest.raises(SandboxError, match="a job ended 2 workers"):
                    future.result(timeout=60)
            else:
                assert future.result(timeout=60).outcomes[0].value == "2"
        assert (pool.working, pool.restarts) == (1, 4)


def test_comparing_the_values_of_one_job_may_fail_and_is_told(jail: SandboxPool, monkeypatch):
    monkeypatch.setattr(Tolerance, "same", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        jail.submit_judge(JudgeJob(HONEST.program, (Test("f(1)", "2"),))).result(timeout=100)


def test_what_follows_a_cancelled_future_is_cancelled_and_does_not_hang():
    first: Future[int] = Future()
    second = then(first, lambda value: value + 1)
    first.cancel()
    with pytest.raises(CancelledError):
        second.result(timeout=100)


def test_closing_a_pool_whose_last_worker_is_gone_does_not_wait(monkeypatch):
    def refuse():
        raise SandboxError("no")

    with SandboxPool(workers=1) as pool:
        (only,) = pool._threads
        monkeypatch.setattr(only, "_start_worker", refuse)
        waiting = [pool.submit(SLOW) for _ in range(3)]
        assert only.worker is not None
        only.worker.kill()
        for future in waiting:
            with pytest.raises(SandboxError, match="no worker of the judge can be started: no"):
                future.result(timeout=100)
        with pytest.raises(SandboxError, match="no worker"):
            pool.submit(HONEST)
        assert pool.worker_pids == ()


# --- the backlog ------------------------------------------------------------------------------------------


def task() -> Progress:
    return Progress(HONEST, Limits())


def test_tasks_are_taken_in_their_order_and_those_given_back_first():
    backlog, tasks = Backlog(10, threads=2), [task() for _ in range(4)]
    for each in tasks:
        backlog.put(each)
    first, second = backlog.take(idle=True), backlog.take(idle=False)
    assert (first, second) == (tasks[0], tasks[1])
    backlog.give_back(tasks[:2])
    backlog.leave("no worker")
    assert [backlog.take(idle=True) for _ in range(4)] == tasks


def test_a_busy_thread_leaves_the_last_tasks_to_idle_ones_and_cancelled_ones_to_nobody():
    backlog, tasks = Backlog(10, threads=2), [task() for _ in range(4)]
    for each in tasks:
        backlog.put(each)
    tasks[0].future.cancel()
    assert backlog.take(idle=False) is tasks[1]
    assert backlog.take(idle=False) is tasks[2]
    assert backlog.take(idle=False) is None
    assert backlog.take(idle=True) is tasks[3]


@pytest.mark.parametrize("end", [Backlog.close, lambda backlog: backlog.leave("the host is full")])
def test_who_waits_for_room_learns_that_there_will_be_none(end):
    backlog, errors = Backlog(1, threads=1), []
    backlog.put(task())

    def put() -> None:
        try:
            backlog.put(task())
        except SandboxError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=put) for _ in range(3)]
    for thread in threads:
        thread.start()
    end(backlog)
    for thread in threads:
        thread.join(10)
    assert len(errors) == 3
    assert all("closed" in error or "the host is full" in error for error in errors)


def test_a_thread_that_rejoins_is_given_tasks_again():
    backlog = Backlog(1, threads=1)
    backlog.leave("no worker")
    assert backlog.working == 0
    backlog.rejoin()
    backlog.put(task())
    assert backlog.working == 1
    assert backlog.take(idle=True) is not None
