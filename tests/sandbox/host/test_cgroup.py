"""Where the host grants cgroups, a jail's processes are limited together, and what exceeds that harms only itself.

`make test-cgroups` runs these tests in a virtual machine, whose kernel grants them.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import CheckJob, Job, Limits, SandboxPool, Status
from sandbox.host import cgroup, worker_thread
from sandbox.host.cgroup import WorkerGroup, find_parent, grant, most_memory
from sandbox.host.doctor import report
from sandbox.host.jail import plan_launch
from sandbox.host.worker import WorkerDied

LIMITS = Limits(call_seconds=60, load_seconds=60, program_seconds=120, memory_mb=96, file_bytes=1 << 20)
HONEST = Job("def f(x):\n    return x * 2\n", ("f(1)",))
HOGS = """
import os, time
def f(processes, megabytes):
    children = []
    for _ in range(processes):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            block = bytearray(b"x") * (megabytes << 20)
            os.write(writer, b"x")
            time.sleep(100)
        os.close(writer)
        children.append((child, reader))
    for _, reader in children:
        os.read(reader, 1)
    return sorted({os.waitpid(child, os.WNOHANG)[1] for child, _ in children})
"""


def make(group: Path, divides: str = "", limit: str = "max") -> Path:
    """A cgroup as the kernel shows it, of plain files."""
    group.mkdir(parents=True)
    controllers = {"cgroup.controllers": "cpu memory pids", "cgroup.subtree_control": divides, "cgroup.procs": ""}
    for name, text in (controllers | {"memory.max": limit}).items():
        (group / name).write_text(text + "\n")
    return group


def parent(mount: Path, own: str) -> str:
    """Where a process of that cgroup finds the parent of its workers'."""
    (mount.parent / "membership").write_text(f"1:name=systemd:/other\n0::/{own}\n")
    return str(find_parent(mount, mount.parent / "membership").relative_to(mount))


def test_workers_get_theirs_below_the_nearest_cgroup_that_divides_memory(tmp_path):
    mount = make(tmp_path / "cgroup", "cpu memory pids")
    make(mount / "user", "memory pids")
    make(mount / "user" / "session")
    make(mount / "user" / "session" / "leaf", "cpu")
    assert parent(mount, "user/session/leaf") == "user"
    assert parent(mount, "user/session") == "user"
    assert parent(mount, "") == "."


def test_no_limit_of_this_process_is_evaded(tmp_path):
    mount = make(tmp_path / "cgroup", "memory pids")
    service = make(mount / "service", limit="1000000000")
    assert parent(mount, "service") == "service"
    assert (service / "cgroup.subtree_control").read_text().startswith("+")


@pytest.mark.parametrize("text", ["", "4:memory:/a\n", "0::/\n", "0::/../../elsewhere\n"])
def test_a_host_without_cgroups_of_version_2_limits_each_process_alone_and_reports_why(tmp_path, monkeypatch, text):
    (tmp_path / "membership").write_text(text)
    with pytest.raises(FileNotFoundError):
        find_parent(tmp_path / "mount", tmp_path / "membership")
    monkeypatch.setattr(cgroup, "MOUNT", tmp_path / "mount")
    found, limit = grant(Limits())
    assert found is None and limit.startswith("the address space of each process") and "no cgroup of version 2" in limit
    assert limit in str(report())
    with SandboxPool(workers=1) as pool:
        assert pool.memory_limit == limit and pool.execute([HONEST])[0].valid


def test_what_a_killed_judge_left_is_removed_and_what_a_living_one_has_is_not(tmp_path):
    mount = make(tmp_path / "cgroup", "memory pids")
    ended = subprocess.Popen(["true"])
    ended.wait()
    for pid in (ended.pid, os.getpid()):
        (mount / f"codea1-judge.{pid}.abc" / "NSJAIL.7").mkdir(parents=True)
    parent(mount, "")
    assert [folder.name for folder in mount.glob("codea1-judge*")] == [f"codea1-judge.{os.getpid()}.abc"]


def test_a_worker_may_use_what_the_largest_job_may_that_it_was_given(tmp_path):
    group = WorkerGroup(make(tmp_path / "parent", "memory pids"))
    for megabytes, expected in ((100, 100), (500, 500), (200, 500)):
        limits = Limits(memory_mb=megabytes)
        group.allow(limits)
        assert int((group.folder / "memory.max").read_text()) == most_memory(Limits(memory_mb=expected))
    assert most_memory(Limits(memory_mb=512, file_bytes=1 << 23)) == (3 * 512 + 64 + 4 * 8) << 20


def test_what_earlier_programs_used_up_is_not_held_against_the_current_one(tmp_path):
    group = WorkerGroup(make(tmp_path / "parent", "memory pids"))
    ran_out = []
    for shortages in (0, 1, 1, 1, 3, 3, 3):
        # The machine's memory, or that of a cgroup above, may be short as well, which ends processes.
        (group.folder / "memory.events").write_text(f"low 0\nhigh 0\nmax 9\noom {shortages}\noom_kill 7\n")
        ran_out.append(group.ran_out())
    assert ran_out == [False, True, True, False, True, True, False]


def test_nsjail_is_given_the_cgroup_and_only_where_there_is_one():
    launch = plan_launch("nsjail", ())
    flags = ["--use_cgroupv2", "--cgroupv2_mount", "/groups/7", "--cgroup_pids_max", "256"]
    arguments = launch.arguments(3, 4, Path("/groups/7"))
    assert arguments[(start := arguments.index(flags[0])) : start + len(flags)] == flags
    assert start < len(arguments) - arguments[::-1].index("--")  # what starts nsjail may have one of its own
    assert not {*flags[:-1]} & {*launch.arguments(3, 4)}


def test_a_program_whose_memory_ends_the_zygote_has_crashed_and_the_judge_has_not_failed(monkeypatch):
    receive = worker_thread.Worker.receive

    def dies(self, timeout):
        report = receive(self, timeout)
        if report.wait_status == 57 << 8:
            raise WorkerDied("as if the kernel had killed the zygote")
        return report

    monkeypatch.setattr(worker_thread.Worker, "receive", dies)
    monkeypatch.setattr(worker_thread.Worker, "ran_out_of_memory", lambda self: True)
    hog = Job("import os\ndef f(x):\n    return x if x < 2 else os._exit(57)\n", ("f(1)", "f(2)", "f(1)", "f(3)"))
    check = CheckJob(hog.program, "def check(f):\n    import os; os._exit(57)\n", "f", in_process=True)
    with SandboxPool(workers=1) as pool:
        futures = [pool.submit(job) for job in (HONEST, hog, HONEST, HONEST)]
        checked = pool.submit(check)
        honest, ended, *others = [future.result(timeout=100) for future in futures]
        assert [execution.outcomes[0].value for execution in (honest, *others)] == ["2"] * 3
        statuses = [outcome.status for outcome in ended.outcomes]
        assert Status.CRASHED in statuses and {*statuses} <= {Status.RETURNED, Status.CRASHED, Status.TIMED_OUT}
        assert checked.result(timeout=100).verdict.status is Status.CRASHED
        assert pool.working == 1


@pytest.fixture
def granted() -> Iterator[Path]:
    """The parent of workers' cgroups, in which none may be left at the end."""
    found, limit = grant(LIMITS)
    if found is None:
        pytest.skip(f"this host grants no cgroup: {limit}")
    yield found
    assert not list(found.glob("codea1-judge.*"))


def test_processes_that_need_too_much_together_are_ended_and_nobody_else(granted):
    with SandboxPool(workers=1, limits=LIMITS) as pool:
        assert pool.memory_limit.startswith("356 MB, 256 processes")
        jobs = [HONEST, Job(HOGS, ("f(2, 30)",)), Job(HOGS, ("f(7, 70)",)), HONEST]
        honest, few, many, after = pool.execute(jobs)
        assert (honest.outcomes[0].value, after.outcomes[0].value) == ("2", "2")
        assert few.outcomes[0].value == "[0]"
        assert many.outcomes[0].value == "[0, 9]"  # the signal that ended some
        assert pool.restarts == 0


def test_a_program_and_its_check_may_each_fill_their_address_space(granted):
    big = "def f():\n    return len(bytearray(b'x') * (70 << 20))\n"
    check = "block = bytearray(b'x') * (70 << 20)\ndef check(f):\n    assert f() == len(block)\n"
    with SandboxPool(workers=1, limits=LIMITS) as pool:
        assert pool.execute([CheckJob(big, check, "f")])[0].passed


def test_a_job_may_ask_for_more_than_the_others(granted):
    big = "def f():\n    return len(bytearray(b'x') * (400 << 20))\n"
    limits = Limits(call_seconds=60, program_seconds=120, memory_mb=512)
    with SandboxPool(workers=1, limits=LIMITS) as pool:
        assert pool.execute([Job(big, ("f()",), limits)])[0].outcomes[0].value == str(400 << 20)


def test_a_killed_host_leaves_nothing_after_the_next_pool(granted):
    script = "from sandbox import SandboxPool\npool = SandboxPool(workers=1)\nprint(1, flush=True)\ninput()\n"
    root = Path(__file__).parents[3]
    host = subprocess.Popen([sys.executable, "-c", script], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert host.stdout is not None and host.stdout.readline()
    (left,) = granted.glob(f"codea1-judge.{host.pid}.*")
    host.kill()
    host.communicate()
    for _ in range(100):
        if "populated 0" in (left / "cgroup.events").read_text():
            break
        threading.Event().wait(0.1)
    with SandboxPool(workers=1):
        assert not left.exists()
