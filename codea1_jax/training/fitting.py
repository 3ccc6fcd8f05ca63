"""Caches for requests that are not known before: as large as the free memory allows, in the model's own context."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh

from codea1_jax.common.chips import GIB
from codea1_jax.common.errors import UserError
from codea1_jax.config import RolloutConfig
from codea1_jax.models.decoder import Transformer, abstract_params
from codea1_jax.models.sharding import batch_shards
from codea1_jax.rollout import Capacity, Request
from codea1_jax.rollout.capacity import capacity_of, pages_of
from codea1_jax.rollout.decode import abstract_cache
from codea1_jax.runtime.layout import REPLICA

ROWS = 256  # samples decoded at once, where there is memory for them
ROWS_ON_CPU = 32  # with 64, a step takes about three times as long
LEAST_ROWS_ON_CPU = 2  # for one alone, XLA makes float32 copies of all kernels
SHARE = 0.8  # of the free memory; the rest is for what programs compute meanwhile
# On a CPU pages and their copies take this share of the parameters' bytes, or these bytes, if that is more, and as many
# samples are decoded at once as usually need no more: with a mean prompt, and a response of the smallest bucket.
SHARE_OF_MODEL, LEAST_ON_CPU = 1 / 3, 256 * 2**20
ENOUGH_ON_CPU = 16  # rows that long prompts get even so: at 2,500 tokens, 4 gave half as many tokens a second
SHARE_IF_LONG = 1 / 4  # of the free memory, at most, for the pages and copies of those rows
HALVED_ON_CPU = 1024  # tokens: a prompt bucket above this is halved once, so that less is copied
PREFILLED_ON_CPU = 1024  # tokens at once, which keep a CPU as busy as more
CGROUP = Path("/sys/fs/cgroup")


def within_context(requests: Sequence[Request], max_new_tokens: int, context: int) -> list[Request]:
    """The requests, limited to the tokens that the context has room for after each prompt.

    Raises ValueError for a prompt that leaves no room for any.
    """
    limited = []
    for request in requests:
        room = context - len(request.prompt)
        if room < 1:
            raise ValueError(f"a prompt of {len(request.prompt)} tokens fills the context of {context}")
        limited.append(request if room >= max_new_tokens else replace(request, limits=(room,) * request.samples))
    return limited


def fitting_capacity(
    model: Transformer, mesh: Mesh, requests: Sequence[Request], response: int, free: int, *, copied: bool
) -> Capacity:
    """What suits these requests and fits into `free` bytes of all the mesh's devices.

    Kernels of accelerators read the pages themselves: those are as many as there is memory for, and where they run
    out, the youngest sample waits. Where pages are `copied` to be read, as on a CPU, fewer samples are decoded at once,
    and pages take no more than a share of the parameters, unless prompts are long.
    Raises UserError if not even one sample fits.
    """
    block, samples = 8 if copied else 32, max(request.samples for request in requests)
    longest = max(len(request.prompt) for request in requests)
    shards, replicas = batch_shards(mesh), mesh.shape[REPLICA]

    def capacity(rows: int, pages: int) -> Capacity:
        rollout = RolloutConfig(rows=rows, block=block, cache_tokens=max(1, pages * block // replicas))
        rollout = rollout.model_copy(update={"prefill_tokens": PREFILLED_ON_CPU} if copied else {})
        return capacity_of(rollout, shards, len(requests), samples, longest, response, replicas=replicas)

    least = capacity(1, 0)
    cache = jax.tree.leaves(abstract_cache(model, least, mesh))
    page = sum(x.size * x.dtype.itemsize for x in cache) // least.pages * (2 if copied else 1)
    pages = int(SHARE * free) // page
    if least.pages > pages:
        need, have = least.pages * page / GIB, SHARE * free / GIB
        raise UserError(
            f"keys and values of a prompt of {longest} tokens and a response of {response} need {need:.1f} GiB of "
            f"memory, and {have:.1f} GiB of what is free may be used; make --max-tokens smaller"
        )
    if not copied:
        return capacity(ROWS, pages)
    parameters = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(abstract_params(model)))
    held = min(pages, int(max(LEAST_ON_CPU, SHARE_OF_MODEL * parameters)) // page)

    def needed(rows: int, prompt: int, response: int) -> int:
        resident = capacity(rows, 0)
        return resident.slots * pages_of(prompt, block) + resident.rows * pages_of(response, block)

    usual = sum(len(request.prompt) for request in requests) // len(requests), least.response_buckets[0]
    rows = ROWS_ON_CPU if needed(ROWS_ON_CPU, *usual) <= held else ENOUGH_ON_CPU
    while rows > LEAST_ROWS_ON_CPU and needed(rows, longest, response) > pages:
        rows //= 2
    if needed(rows, *usual) > held:
        held = max(held, min(int(SHARE_IF_LONG * free) // page, needed(rows, longest, response)))
    chosen = capacity(rows, max(least.pages, held))
    halves = {-(-bucket // 32) * 16 for bucket in chosen.prompt_buckets if bucket > HALVED_ON_CPU}
    of_prompts = tuple(sorted({*chosen.prompt_buckets, *halves}))
    return replace(chosen, rows=max(LEAST_ROWS_ON_CPU, chosen.rows), prompt_buckets=of_prompts)


def free_memory(mesh: Mesh) -> int:
    if mesh.devices.flat[0].platform == "cpu":
        return free_on_host()
    stats: list[Any] = [device.memory_stats() for device in mesh.devices.flat]
    return min(each["bytes_limit"] - each["bytes_in_use"] for each in stats) * len(stats)


def free_on_host(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = CGROUP) -> int:
    """Bytes that the machine, and the container that this process may be in, have left."""
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    free = int(fields["MemAvailable"].split()[0]) * 1024
    most, used = cgroup / "memory.max", cgroup / "memory.stat"
    if most.exists() and used.exists() and (limit := most.read_text().strip()) != "max":
        held = dict(line.split() for line in used.read_text().splitlines())
        free = min(free, int(limit) - int(held["anon"]) - int(held.get("kernel", 0)))
    return free
