import logging
from collections.abc import Sequence
from contextlib import ExitStack

from codea1_jax.config import SandboxConfig
from sandbox import Judge, Limits, ReferenceCache, SandboxPool, SandboxUnavailable
from sandbox.host.doctor import try_out
from sandbox.remote.bearer import read_token
from sandbox.remote.client import RemoteJudge

logger = logging.getLogger(__name__)


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
