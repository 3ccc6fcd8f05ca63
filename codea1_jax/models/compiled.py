"""What XLA has compiled in this process, by JAX's own events; what it read from the cache does not count."""

import threading
from typing import NamedTuple

import jax

_COMPILED, _READ = "/jax/core/compile/backend_compile_duration", "/jax/compilation_cache/cache_hits"


class Compiled(NamedTuple):
    """seconds: of the compiler, over all threads together."""

    programs: int = 0
    seconds: float = 0.0

    def since(self, before: "Compiled") -> "Compiled":
        return Compiled(self.programs - before.programs, self.seconds - before.seconds)

    def metrics(self) -> dict[str, float]:
        return {"compiled/programs": float(self.programs), "compiled/seconds": self.seconds}


class _Count:
    def __init__(self) -> None:
        self.so_far, self._lock, self._thread = Compiled(), threading.Lock(), threading.local()
        jax.monitoring.register_event_listener(self._on_event)
        jax.monitoring.register_event_duration_secs_listener(self._on_duration)

    def _on_event(self, event: str, **_: object) -> None:
        if event == _READ:  # in the thread and before the end of what asked for the program
            self._thread.has_read = True

    def _on_duration(self, event: str, duration_secs: float, **_: object) -> None:
        if event == _COMPILED:
            has_read, self._thread.has_read = getattr(self._thread, "has_read", False), False
            with self._lock:
                programs, before = self.so_far
                self.so_far = self.so_far if has_read else Compiled(programs + 1, before + duration_secs)


_COUNT = _Count()


def compiled() -> Compiled:
    """All of it since this module was imported."""
    return _COUNT.so_far
