"""TensorBoard's event files, written at once and by the caller.

tensorboardX's SummaryWriter writes in a thread and when the process ends, where a full disk can only end in tracebacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog  # pyright: ignore[reportAttributeAccessIssue]
from tensorboardX.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]


class EventFile:
    """A new event file in a folder. With `purge_step`, TensorBoard forgets that step and later ones of other files."""

    def __init__(self, folder: Path, purge_step: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = EventsWriter(str(folder / "events"))
        if purge_step is not None:
            self._writer.write_event(Event(step=purge_step, session_log=SessionLog(status=SessionLog.START)))
        self._writer.flush()

    def write(self, step: int, time: float, figures: Mapping[str, float]) -> None:
        """Appends figures, on disk when this returns. Raises OSError."""
        values = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        self._writer.write_event(Event(step=step, wall_time=time, summary=Summary(value=values)))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
