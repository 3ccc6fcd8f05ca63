"""Finds a Python for the jail. Where the host runs as root, the jail runs as nobody, so nobody must be able
to read it.
"""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sandbox.jobs import SandboxUnavailable

_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_SYSTEM_FOLDERS = (Path("/usr/bin"), Path("/usr/local/bin"))
_NOT_COPIED = (
    "site-packages",
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "config-*",
)


@dataclass(frozen=True)
class Interpreter:
    """A Python executable, and the (directory, place inside the jail) pairs that it needs besides the
    system's own.
    """

    executable: Path
    mounts: tuple[tuple[Path, Path], ...] = ()


def find_interpreter() -> Interpreter:
    """This Python where the jail can read it, else the system's of the same version, else a readable copy
    of this one.

    Raises SandboxUnavailable.
    """
    own = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    prefix = Path(os.path.realpath(sys.base_prefix))
    if readable_in_jail(own) and readable_in_jail(prefix):
        return Interpreter(own, _mounts(prefix, prefix))
    for folder in _SYSTEM_FOLDERS:
        if _works(folder / f"python{_VERSION}"):
            return Interpreter(folder / f"python{_VERSION}")
    try:
        return Interpreter(own, _mounts(_readable_copy(own, prefix), prefix))
    except OSError as error:
        raise SandboxUnavailable(
            f"no Python {_VERSION} that the jail's user may read: install one in /usr/bin, or make {prefix} "
            f"world-readable (copying it to {tempfile.gettempdir()} failed: {error})"
        ) from error


def readable_in_jail(path: Path) -> bool:
    """Whether the jail's user can reach and read `path`: nobody if we are root, else ourselves."""
    if os.geteuid() != 0:
        return os.access(path, os.R_OK)
    try:
        readable = path.stat().st_mode & stat.S_IROTH
        return bool(readable) and all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)
    except OSError:
        return False


def copy_name() -> str:
    """The name of the copy's folder: one per version and user."""
    return f"codea1-python-{sys.version.split()[0]}-{os.geteuid()}"


def _mounts(source: Path, place: Path) -> tuple[tuple[Path, Path], ...]:
    return () if place == Path("/usr") else ((source, place),)


def _works(python: Path) -> bool:
    """Whether `python` starts and has the whole standard library."""
    if not python.is_file() or not readable_in_jail(python):
        return False
    probe = subprocess.run(
        [python, "-S", "-s", "-c", "import random, typing, resource"], capture_output=True, check=False
    )
    return probe.returncode == 0


def _readable_copy(executable: Path, prefix: Path) -> Path:
    """A copy of the interpreter at `prefix`, without its packages, made once per version in the temporary
    folder.
    """
    name = copy_name()
    target = Path(tempfile.gettempdir()) / name
    if target.exists():
        info = target.lstat()
        if stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o022:
            return target
        raise OSError(f"{target} belongs to somebody else")
    draft = Path(tempfile.mkdtemp(prefix=name + "-"))
    draft.chmod(0o755)
    for part in (executable, prefix / "lib" / f"python{_VERSION}", *(prefix / "lib").glob("libpython*")):
        place = draft / part.relative_to(prefix)
        place.parent.mkdir(parents=True, exist_ok=True)
        if part.is_dir():
            shutil.copytree(part, place, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        else:
            shutil.copy2(part, place)
    try:
        draft.rename(target)
    except OSError:  # another process was faster
        shutil.rmtree(draft)
    return target
