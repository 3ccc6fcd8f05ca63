"""The machine itself: devices talking to each other, what a step takes and holds next to its forecast, the judge."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from codea1_jax.common.chips import GIB
from codea1_jax.config import Config
from codea1_jax.doctor.selftest.checks import Check, Row
from codea1_jax.plan.assumptions import JUDGED_PER_CORE
from codea1_jax.plan.calibrate import calibrate
from codea1_jax.training.judges import make_judge
from sandbox import Job
from sandbox.host.pool import default_workers

SLOWER = 3.0  # times its forecast that a phase may take; no forecast is nearer than that to every machine
FULLER = 1.1  # times what the compiler planned that a device may have held
JUDGED = 200  # programs a worker
_DEVICES = "devices"  # the mesh's only axis
_RIGHT = "def f(n):\n    return [i * i for i in range(n)]\n"
_WRONG = "def f(n):\n    return [i + i for i in range(n)]\n"


def machine_checks(config: Config) -> Iterator[Check]:
    """For a configuration."""
    if jax.device_count() > 1:
        yield from (Check(f"{name}, {jax.device_count()} devices", partial(_collective, name)) for name in COLLECTIVES)
    yield Check("phases", partial(_phases, config))
    yield Check("judge", partial(_judge, config))


def _shift(x: Any) -> Any:
    count = jax.device_count()
    return jax.lax.ppermute(x, _DEVICES, [(device, (device + 1) % count) for device in range(count)])


# What each device gets from the parts of all, [devices, length]: by JAX, and by NumPy.
COLLECTIVES: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray, int], np.ndarray]]] = {
    "all-reduce": (partial(jax.lax.psum, axis_name=_DEVICES), lambda parts, device: parts.sum(axis=0)),
    "all-gather": (
        partial(jax.lax.all_gather, axis_name=_DEVICES, tiled=True),
        lambda parts, device: parts.reshape(-1),
    ),
    "reduce-scatter": (
        partial(jax.lax.psum_scatter, axis_name=_DEVICES, tiled=True),
        lambda parts, device: np.split(parts.sum(axis=0), len(parts))[device],
    ),
    "all-to-all": (
        partial(jax.lax.all_to_all, axis_name=_DEVICES, split_axis=0, concat_axis=0, tiled=True),
        lambda parts, device: parts.reshape(len(parts), len(parts), -1)[:, device].reshape(-1),
    ),
    "permute": (_shift, lambda parts, device: parts[device - 1]),
}


def _collective(name: str) -> Iterator[Row]:
    """Whole numbers, which every order of summing sums alike."""
    function, expected = COLLECTIVES[name]
    count = jax.device_count()
    mesh = jax.make_mesh((count,), (_DEVICES,))
    parts = np.random.default_rng(0).integers(-1000, 1000, (count, 1024 * count)).astype(np.float32)
    split = NamedSharding(mesh, P(_DEVICES))
    placed = jax.make_array_from_callback((parts.size,), split, lambda index: parts.reshape(-1)[index])
    run = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P(_DEVICES), out_specs=P(_DEVICES), check_vma=False))
    order = {device: index for index, device in enumerate(mesh.devices.flat)}
    wrong = [
        str(shard.device)
        for shard in run(placed).addressable_shards
        if not np.array_equal(np.asarray(shard.data), expected(parts, order[shard.device]))
    ]
    title = f"{name}, {count} devices"
    yield Row(title, not wrong, "NumPy's numbers", f"wrong on {', '.join(wrong)}" if wrong else "equal everywhere")


def _phases(config: Config) -> Iterator[Row]:
    """Seconds of a call of each phase, and the memory that they hold at most."""
    measured = calibrate(config)
    for phase, taken in measured.items():
        expected, shown = "no forecast for such devices", f"{taken.seconds:.3g} s a call"
        passed = None if taken.expected is None else taken.seconds <= SLOWER * taken.expected
        if taken.expected is not None:
            expected = f"{taken.expected:.3g} s a call, at most {SLOWER:g} times that"
            shown += f", {taken.seconds / taken.expected:.2f} times"
        yield Row(str(phase), passed, expected, shown, taken.seconds)
    yield _memory(max(taken.planned_bytes for taken in measured.values()))


def _memory(planned: int) -> Row:
    """What a device held at most, next to what the compiler planned for the largest program."""
    stats = [stats for device in jax.local_devices() if (stats := device.memory_stats())]
    expected = f"{planned / GIB:.2f} GiB in the largest program"
    if not stats:
        return Row("memory", None, expected, "not reported by such devices")
    peak = max(each["peak_bytes_in_use"] for each in stats)
    return Row("memory", peak <= FULLER * planned, expected, f"{peak / GIB:.2f} GiB at most")


def _judge(config: Config) -> Iterator[Row]:
    """A right program passes and a wrong one fails, however many are judged at once; and how many that are."""
    calls = tuple(f"f({n})" for n in range(8))
    values = [str([i * i for i in range(n)]) for n in range(8)]
    with make_judge(config.sandbox) as judge:
        workers = config.sandbox.workers or default_workers()
        jobs = [Job(f"{program}# {n}\n", calls) for n in range(JUDGED * workers // 2) for program in (_RIGHT, _WRONG)]
        began = time.perf_counter()
        executions = judge.execute(jobs)
        rate = len(jobs) / (time.perf_counter() - began)
    passed = [[outcome.value for outcome in execution.outcomes] == values for execution in executions]
    as_they_should = passed == [True, False] * (len(jobs) // 2)
    expected = f"right programs pass, wrong ones fail; {JUDGED_PER_CORE * workers} programs/s"
    yield Row("judge", as_they_should, expected, f"{'so' if as_they_should else 'NOT so'}; {rate:.0f} programs/s")
