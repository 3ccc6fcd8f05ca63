"""Finds a Python for the jail. Where the host runs as root, the jail runs as nobody, and may read less."""

import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sandbox.jobs import SandboxUnavailable

_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_SYSTEM_FOLDERS = (Path("/usr/bin"), Path("/usr/local/bin"))


@dataclass(frozen=True)
class Interpreter:
    """A Python executable, and what it needs besides the system's own: files and directories that lie in the jail where
    they lie here.
    """

    executable: Path
    mounts: tuple[Path, ...] = ()


def find_interpreter() -> Interpreter:
    """This Python, unless it is in a private folder and the system has the same version. Raises SandboxUnavailable."""
    own = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    prefix = Path(os.path.realpath(sys.base_prefix))
    readable = readable_in_jail(own) and readable_in_jail(prefix)
    if readable and not in_private_folder(prefix):
        return Interpreter(own, () if prefix == Path("/usr") else (prefix,))
    for folder in _SYSTEM_FOLDERS:
        if _works(folder / f"python{_VERSION}"):
            return Interpreter(folder / f"python{_VERSION}")
    if readable:
        libraries = {prefix / "lib", prefix / sys.platlibdir}  # as little of a home as Python needs
        return Interpreter(own, (own, *sorted(each for each in libraries if each.is_dir() and not each.is_symlink())))
    raise SandboxUnavailable(
        f"no Python {_VERSION} that the jail's user may read: install one in /usr/bin, or `chmod -R o+rX {prefix}`"
    )


def readable_in_jail(path: Path) -> bool:
    """Whether the jail's user may read `path` once it is there: nobody if we are root, else ourselves."""
    if os.geteuid() != 0:
        return os.access(path, os.R_OK)
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
    return mode & needed == needed


def in_private_folder(path: Path) -> bool:
    """Whether the jail's user may not come to `path`, which it may read. Only root sees into others' folders."""
    return os.geteuid() == 0 and not all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)


def _works(python: Path) -> bool:
    if not python.is_file() or not readable_in_jail(python):
        return False
    probe = subprocess.run(
        [python, "-S", "-s", "-c", "import random, typing, resource"], capture_output=True, check=False
    )
    return probe.returncode == 0
