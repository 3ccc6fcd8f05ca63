"""A cgroup (version 2) around each worker, where this host grants one: what a jail's processes may use together.

A pool makes a folder for each worker below a cgroup that divides memory and processes among its children, and nsjail
puts the zygote into it. So what a program does, its own processes and its files in memory included, ends its processes
and nobody else's.
"""

import contextlib
import errno
import os
import tempfile
import time
from pathlib import Path

from sandbox.host.protocol import PIPELINE
from sandbox.jobs import Limits

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
PROCESSES = 256  # in a jail, with the zygote and those that have ended and were not waited for
_CORES = 2  # a program keeps one busy, and its zygote another now and then
_OTHER_MB = 64  # the programs' folder, and the kernel's buffers and tables
_NAME = "codea1-judge"
_CONTROL = "cgroup.subtree_control"
_PATIENCE = 2.0  # seconds in which the kernel ends killed processes
EACH_PROCESS = "the address space of each process (rlimits)"


def grant(limits: Limits) -> tuple[Path | None, str]:
    try:
        parent = find_parent(MOUNT, MEMBERSHIP)
    except OSError as error:
        return None, f"{EACH_PROCESS}; no cgroup of version 2 ({error})"
    cores = f", {_CORES} cores" if "cpu" in (parent / _CONTROL).read_text().split() else ""
    together = f"{most_memory(limits) >> 20} MB, {PROCESSES} processes{cores} for each worker's cgroup"
    return parent, f"{together}; {EACH_PROCESS}"


def find_parent(mount: Path, membership: Path) -> Path:
    """The cgroup below which workers get theirs, without what judges that were killed have left there.

    It is the nearest of this process's own and those above that divides memory, unless that would evade a limit of one
    in between. Else this process's own divides it from now on, its processes in a child. Raises OSError.
    """
    own = mount / next((line[4:] for line in membership.read_text().splitlines() if line.startswith("0::/")), "")
    (own / _CONTROL).stat()  # which cgroups of version 1 do not have
    parent = own
    while not (divides := _divides(parent)) and parent != mount and not _is_limited(parent):
        parent = parent.parent
    if not divides:
        parent = own
        _divide(own)
    for left in parent.glob(f"{_NAME}.*.*"):
        if not Path("/proc", left.name.split(".")[1]).exists():
            _remove(left)
    return parent


def _divides(group: Path) -> bool:
    may_use = all(os.access(path, os.W_OK) for path in (group, group / "cgroup.procs"))
    return may_use and {"memory", "pids"} <= {*(group / _CONTROL).read_text().split()}


def _is_limited(group: Path) -> bool:
    limit = group / "memory.max"
    return limit.exists() and limit.read_text().strip() != "max"


def _divide(group: Path) -> None:
    try:
        (group / _CONTROL).write_text("+memory +pids")
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        members = group / f"{_NAME}-members"  # only a cgroup without processes, or the root, can divide memory
        members.mkdir(exist_ok=True)
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (members / "cgroup.procs").write_text(pid)
        (group / _CONTROL).write_text("+memory +pids")
    with contextlib.suppress(OSError):
        (group / _CONTROL).write_text("+cpu")


def most_memory(limits: Limits) -> int:
    """Bytes for a worker: as if zygote, program and a check's own process each filled their address space."""
    return ((3 * limits.memory_mb + _OTHER_MB) << 20) + PIPELINE * limits.file_bytes


class WorkerGroup:
    """The cgroup of one worker. Raises OSError where it cannot be made."""

    def __init__(self, parent: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_NAME}.{os.getpid()}.", dir=parent))
        self._memory = 0
        self._shortages = "0", "0"
        for name, value in (("memory.swap.max", "0"), ("cpu.max", f"{_CORES * 100_000} 100000")):
            if (self.folder / name).exists():
                (self.folder / name).write_text(value)

    def allow(self, limits: Limits) -> None:
        memory = most_memory(limits)
        if memory > self._memory:
            (self.folder / "memory.max").write_text(str(memory))
            self._memory = memory

    def ran_out(self) -> bool:
        """Whether its processes needed more memory than it allows since this was last asked but once.

        It is asked after each program, when the next one may have begun.
        """
        events = (self.folder / "memory.events").read_text().split()
        before, last = self._shortages
        self._shortages = last, events[events.index("oom") + 1]
        return self._shortages[1] != before

    def remove(self) -> None:
        until = time.monotonic() + _PATIENCE
        while not _remove(self.folder) and time.monotonic() < until:
            time.sleep(0.01)


def _remove(folder: Path) -> bool:
    for group in (*folder.glob("NSJAIL*"), folder):
        with contextlib.suppress(OSError):  # nsjail may do the same
            group.rmdir()
    return not folder.exists()
