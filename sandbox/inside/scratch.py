"""Inside the jail: the one folder that programs may write to, empty for each of them.

It lies in memory, is small, and is emptied by the zygote after every process of a program has ended. Nothing of the
folder itself outlasts a program either: times and mode are set back, and the kernel refuses all other attributes (see
`sandbox.host.seccomp`).
"""

import itertools
import os
import stat


def empty(folder: str) -> None:
    """Remove all that a program left in its folder, however deep, locked or strangely named it is."""
    os.chmod(folder, 0o700)
    fresh = itertools.count()
    while names := os.listdir(folder):
        for name in names:
            _remove(f"{folder}/{name}", folder, fresh)
    os.utime(folder, (0, 0))


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
