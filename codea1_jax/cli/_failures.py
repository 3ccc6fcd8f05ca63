"""What the operating system refuses, in one line with a fix."""

from __future__ import annotations

import errno

_SPACE = "free some space, or choose another place"
_PERMISSION = "change its permissions, or choose another place"
_FIXES = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "the limit is that of the file system, or of `ulimit -f`",
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: "it is read-only: choose another place",
    errno.ENOTDIR: "a part of that path is a file: choose another place",
    errno.EADDRINUSE: "choose another --port",
    errno.EADDRNOTAVAIL: "choose another --host",
    errno.EMFILE: "raise the limit with `ulimit -n 65536`",
}


def in_words(error: Exception) -> str:
    """An error's own message, or of one that only has the operating system's: the path, the reason and the fix."""
    if not (isinstance(error, OSError) and error.strerror):
        return str(error)
    parts = [f"{error.filename}: " if error.filename else "", error.strerror]
    fix = _FIXES.get(error.errno or 0)
    return "".join([*parts, f"; {fix}" if fix else ""])
