"""The judge a configuration asks for."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TypeVar

from codea1_jax.config import SandboxConfig
from codea1_jax.runtime.stalls import heartbeat
from sandbox import Judge, Limits, ReferenceCache, Request, SandboxPool, SandboxUnavailable
from sandbox.host.doctor import try_out
from sandbox.remote.bearer import read_token
from sandbox.remote.client import RemoteJudge

logger = logging.getLogger(__name__)

T = TypeVar("T")


def make_judge(settings: SandboxConfig, preload: Sequence[str] = ()) -> Judge:
    """The judge, which remembers what references answer; programs in local jails may also import `preload`.

    Raises SandboxUnavailable, naming what is missing, if it cannot run here, no service answers, or it fails a right
    program.
    """
    with ExitStack() as stack:
        judge = stack.enter_context(_judge(settings, tuple(dict.fromkeys((*settings.preload, *preload)))))
        try_out(judge)
        stack.pop_all()
    return ReferenceCache(judge)


def _judge(settings: SandboxConfig, preload: Sequence[str]) -> Judge:
    limits = Limits(call_seconds=settings.call_seconds, memory_mb=settings.memory_mb)
    if settings.backend == "http":
        return RemoteJudge(settings.address, read_token(), limits, settings.workers)
    try:
        return SandboxPool(settings.workers, settings.backend, limits, preload)
    except SandboxUnavailable as error:
        if settings.fallback == "none":
            raise
        logger.warning("no jail here (%s); sandbox.fallback=process: programs are judged WITHOUT a jail", error)
        return SandboxPool(settings.workers, "process", limits, preload)


class WatchedJudge(Judge):
    """Another judge, whose every answer shows that this host has not stalled. It is not closed with this one."""

    def __init__(self, judge: Judge) -> None:
        self.limits, self.memory_limit = judge.limits, judge.memory_limit
        self._judge = judge

    def submit(self, job: Request[T]) -> Future[T]:
        answer = self._judge.submit(job)
        answer.add_done_callback(lambda _: heartbeat())
        return answer

    def close(self) -> None:
        """Leaves the judge behind open."""
