"""What a long stage of work reports while it lasts, to whoever shows it.

What works, such as a sampler, is far from what a person sees, and one process does one run: so there is one place to
report to. A report costs a function call, and never waits for a device.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Show = Callable[[str, int, int, str, str, float | None], object]
"""(stage, parts done, parts in all, what the parts are, note, seconds left), as in ("sampling", 3, 16, "programs",
"900 tokens", 60.0); None: by the rate of the parts.
"""

_shows: list[Show] = []


def report(stage: str, done: int, total: int, parts: str, note: str = "", left: float | None = None) -> None:
    for show in _shows[-1:]:
        show(stage, done, total, parts, note, left)


@contextmanager
def shown_by(show: Show) -> Iterator[None]:
    _shows.append(show)
    try:
        yield
    finally:
        _shows.remove(show)
