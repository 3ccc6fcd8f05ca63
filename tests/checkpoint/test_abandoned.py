"""What Orbax abandons when a save fails is not reported, at any time later; every other lost failure is."""

import asyncio
import gc
import warnings

from codea1_jax.checkpoint.abandoned import ignore_abandoned

ORBAX, OTHER = "site-packages/orbax/checkpoint/metadata.py", "site-packages/other.py"
TASK = """
async def task():
    raise OSError(text)
"""


def task(file: str, text: str):
    """A coroutine of a module in this file, which fails."""
    names = {"text": text}
    exec(compile(TASK, file, "exec"), names)
    return names["task"]()


def test_a_failed_task_that_nobody_waits_for_is_reported_unless_it_is_orbaxs(caplog):
    ignore_abandoned()

    async def start_and_forget():
        tasks = [
            asyncio.ensure_future(task(ORBAX, "[Errno 27] File too large")),
            asyncio.ensure_future(task(OTHER, "UNAVAILABLE: tensorstore's words")),
            asyncio.ensure_future(task(OTHER, "a defect")),
        ]
        await asyncio.wait(tasks)

    asyncio.run(start_and_forget())
    gc.collect()
    reported = [str(record.exc_info[1]) for record in caplog.records if record.name == "asyncio" and record.exc_info]
    assert reported == ["a defect"]


def test_a_coroutine_that_was_never_begun_is_not_reported():
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        task(ORBAX, "never raised")
        gc.collect()
        ignore_abandoned()
        task(ORBAX, "never raised")
        gc.collect()
    assert len(reported) == 1
