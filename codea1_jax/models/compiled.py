"""What XLA compiles in this process, by JAX's own events; what it reads from the cache does not count."""

import threading

import jax

_COMPILED, _READ = "/jax/core/compile/backend_compile_duration", "/jax/compilation_cache/cache_hits"


class _Count:
    def __init__(self) -> None:
        self._programs, self._seconds, self._lock, self._thread = 0, 0.0, threading.Lock(), threading.local()
        jax.monitoring.register_event_listener(self._on_event)
        jax.monitoring.register_event_duration_secs_listener(self._on_duration)

    def _on_event(self, event: str, **_: object) -> None:
        if event == _READ:  # in the thread and before the end of what asked for the program
            self._thread.has_read = True

    def _on_duration(self, event: str, duration_secs: float, **_: object) -> None:
        if event == _COMPILED:
            has_read, self._thread.has_read = getattr(self._thread, "has_read", False), False
            with self._lock:
                self._programs += not has_read
                self._seconds += 0.0 if has_read else duration_secs

    def take(self) -> dict[str, float]:
        with self._lock:
            new = {"compiled/programs": float(self._programs), "compiled/seconds": self._seconds}
            self._programs, self._seconds = 0, 0.0
        return new


_COUNT = _Count()


def newly_compiled() -> dict[str, float]:
    """The programs compiled since this was last asked, and the seconds that took, over all threads together."""
    return _COUNT.take()
