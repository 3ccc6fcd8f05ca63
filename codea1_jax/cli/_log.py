import logging
import sys
from typing import TextIO

from data_pipeline.problem import visible

LOGGED = ("codea1_jax", "sandbox")  # packages whose log a user reads


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Looks standard error up at every record, so that lines go above a progress bar that has captured it."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Sends the log records of this project to standard error; calling it again changes the level."""
    handler = _StderrHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    for package in map(logging.getLogger, LOGGED):
        package.setLevel(level)
        package.propagate = False
        for old in [handler for handler in package.handlers if isinstance(handler, _StderrHandler)]:
            package.removeHandler(old)
        package.addHandler(handler)
