"""Inside the jail: the one folder that programs may write to, empty for each of them.

It lies in memory, is small, and is emptied after every process of a program has ended. Nothing of the folder itself
outlasts a program either: times and mode are set back, and the kernel refuses all other attributes (see
`sandbox.host.seccomp`). What lies in it is looked at by a process that ends with that: in the zygote's memory, the
next program, its fork, could read names that the last one chose.
"""

import itertools
import os
import stat


def empty(folder: str) -> None:
    """Remove all that a program left in its folder, however deep, locked or strangely named it is."""
    _set_back(folder)
    if os.stat(folder).st_size == _EMPTY:
        return
    cleaner = os.fork()
    if cleaner == 0:
        try:
            _remove_all(folder)
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(cleaner, 0)[1]:
        raise RuntimeError(f"{folder} cannot be emptied")
    _set_back(folder)


_EMPTY = 40  # size of an empty folder of tmpfs: 20 bytes for each entry, and as many for "." and ".."


def _set_back(folder: str) -> None:
    os.chmod(folder, 0o700)
    os.utime(folder, (0, 0))


def _remove_all(folder: str) -> None:
    fresh = itertools.count()
    while names := os.listdir(folder):
        for name in names:
            _remove(f"{folder}/{name}", folder, fresh)


def _remove(path: str, folder: str, fresh: "itertools.count[int]") -> None:
    """Remove one entry. What is in a directory is first moved up, so that depth costs neither stack nor descriptors."""
    if not _is_directory(path):
        os.unlink(path)
        return
    os.chmod(path, 0o700)
    for name in os.listdir(path):
        inner = f"{path}/{name}"
        if _is_directory(inner):
            os.chmod(inner, 0o700)  # whose own parent entry changes
            os.rename(inner, next(place for n in fresh if not os.path.lexists(place := f"{folder}/{n}")))
        else:
            os.unlink(inner)
    os.rmdir(path)


def _is_directory(path: str) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)
