"""A last line on standard error for a process that cannot write it itself: it was killed, or aborted by a library."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from types import TracebackType

_WAIT_AND_PRINT = 'read -r _ || printf "%s\\n" "$0" >&2'  # `read` fails when the writing end closes without a line


class DeathNotice:
    """While active, the end of this process prints `line` on its standard error. Use as a context manager.

    A shell waits for it, at the other end of a pipe, in a session of its own, so that Ctrl-C does not end it.
    """

    def __init__(self, line: str) -> None:
        self._line = line

    def __enter__(self) -> DeathNotice:
        command = ["/bin/sh", "-c", _WAIT_AND_PRINT, self._line]
        self._shell = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.cancel()
        self._shell.wait()

    def cancel(self) -> None:
        """Nothing is printed from now on."""
        pipe = self._shell.stdin
        assert pipe is not None
        if not pipe.closed:
            with suppress(BrokenPipeError):  # the shell has been killed
                pipe.write(b"\n")
                pipe.close()
