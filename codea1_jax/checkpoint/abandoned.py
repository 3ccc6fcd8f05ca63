"""Keeps quiet about what Orbax abandons when the save or the read of one array fails; that failure itself is raised.

Orbax then closes the event loop in which the other arrays are still being saved or read. Their coroutines, and their
results, which come too late, would each be reported with a traceback, at any time until the process ends.
"""

from __future__ import annotations

import inspect
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

_MESSAGE = re.compile(r"[A-Z]+(_[A-Z]+)*: |Encountered error while reading array")  # tensorstore's, and Orbax's


def ignore_abandoned() -> None:
    """For the whole process, from now on. Calling it again changes nothing."""
    if not getattr(sys.unraisablehook, "ignores_abandoned", False):
        sys.unraisablehook = _hook(sys.unraisablehook)
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)  # nothing of ours is one
    logging.getLogger("asyncio").addFilter(_is_of_others)


def _hook(report: Callable[[Any], Any]) -> Callable[[Any], None]:
    def hook(unraisable: Any) -> None:
        coroutine = inspect.iscoroutine(unraisable.object) and _is_orbaxs(unraisable.object)
        late = unraisable.exc_type is RuntimeError and str(unraisable.exc_value) == "Event loop is closed"
        if not (coroutine or late):
            report(unraisable)

    hook.ignores_abandoned = True
    return hook


def _is_orbaxs(coroutine: Any) -> bool:
    return "orbax" in coroutine.cr_code.co_filename


def _is_of_others(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if error is None or "never retrieved" not in record.getMessage():
        return True
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__, limit=1)]
    return not (_MESSAGE.match(str(error)) or any("orbax" in file for file in files))
