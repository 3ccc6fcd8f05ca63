"""When an answer is late, and how many jobs may be sent to a second replica for it."""

from collections import deque

_SHARE = 0.01  # of the jobs
_BURST = 10.0  # jobs, besides: where a replica stops, those that wait for it are late at once
_REMEMBERED = 1_000  # answers
_FIRST_SECONDS = 1.0  # what is late before anything is known


class Hedging:
    """Late is an answer that takes longer than 99% of the last thousand did.

    One job in a hundred may be sent twice, and ten in all besides, however many are late: so a fleet that is slow does
    not get twice the work.
    """

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self._allowed = _BURST
        self._count = 0
        self.late = _FIRST_SECONDS

    def answered(self, seconds: float) -> None:
        """A job was answered after that time."""
        self._seconds.append(seconds)
        self._allowed = min(self._allowed + _SHARE, _BURST)
        self._count += 1
        if self._count % 100 == 0:
            self.late = sorted(self._seconds)[-1 - int(_SHARE * len(self._seconds))]

    def allows(self) -> bool:
        """Whether one more job may be sent twice; it then counts as sent."""
        if self._allowed < 1.0:
            return False
        self._allowed -= 1.0
        return True
