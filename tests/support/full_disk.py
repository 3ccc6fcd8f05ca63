"""A disk that is full, for any user and without mounting one."""

import contextlib
import resource
import signal


@contextlib.contextmanager
def file_size_limit(size):
    """Writes past `size` bytes fail as on a full disk, for any user."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
