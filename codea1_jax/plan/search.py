"""Looks for the layout of a run that fits some hardware and is expected to take the shortest step.

A layout is the mesh, rows and pages of rollouts, micro-batches, what the backward pass computes again and what waits in
host memory: nothing that changes what is learned except for rounding. All that arithmetic finds room for are ranked by
a rough forecast (`estimated_seconds`); the best, and the one given, are compiled, and the compiler's figures decide.
"""

import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from codea1_jax.common.chips import GIB, Hardware
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config
from codea1_jax.plan.assumptions import EFFICIENCY, HOST_SECONDS, LAYER_SECONDS, ROW_SECONDS
from codea1_jax.plan.compiler import CompilerError, Report
from codea1_jax.plan.forecast import cache_seconds
from codea1_jax.plan.memory import least_memory, resident
from codea1_jax.plan.phases import Work, layout_table, sampling_table
from codea1_jax.plan.plan import make_plan
from codea1_jax.plan.planned_run import PlannedRun, make_planned_run, model_shape
from codea1_jax.plan.workload import Load, Phase, sampling_loads, training_loads

ROWS_PER_SHARD = (32, 64, 128, 256, 512, 1024)
MICRO_BATCHES = (1.0, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0, 64.0)
TILE = 128  # rows are whole tiles of it, as kernels compute them
LONGEST_ROW = 4.0  # in longest sequences: longer rows do not pack better
ENOUGH_TOKENS = 16384  # of a micro-batch of several rows: a device is busy with them
REMAT = ("full", "dots")
COMPILED = 4  # candidates, besides the layout that is given
HOP = 5e-6  # seconds that the devices of a tensor axis wait for each other, apart from what they send; assumed
LOGITS = 2.5  # copies of a token step's float32 logits; those of the shipped plans, about
SPARE = 0.6 * GIB
# Of a CPU, measured: bytes of a process, its libraries and what compiling leaves; of programs, for each layer; what XLA
# holds besides the layers that it brings to the sampler, as a share of them; its copies of pages, of a chunk's logits
# (learning copies the embeddings too) and, without recomputation, of what a backward pass keeps.
HOST_PROCESS, HOST_PROGRAMS, HOST_MERGED, HOST_PAGES, HOST_LOGITS, HOST_LAYERS = 1.1e9, 1.4e7, 0.4, 2.0, 4.0, 2.0
USED = 0.97  # of the memory: what the compiler adds is not known before
PASSES = {"score-old": 1, "score-ref": 1, "gradient": 3}  # over the layers, whose parameters are gathered in each
Reload = Callable[[Sequence[str]], Config]


@dataclass(frozen=True)
class Layout:
    """What is searched. rows, cache_tokens: of a replica. micro_batch: places of a shard, in longest sequences; more
    than LONGEST_ROW are in several rows.
    """

    mesh: tuple[int, int, int]
    rows: int
    cache_tokens: int
    micro_batch: float
    remat: str
    optimizer_offloaded: bool

    def overrides(self, config: Config) -> list[str]:
        replica, fsdp, tensor = self.mesh
        chosen = [f"mesh={{replica: {replica}, fsdp: {fsdp}, tensor: {tensor}}}"]
        if sampling_loads(config):
            chosen += [f"rollout.rows={self.rows}", f"rollout.cache_tokens={self.cache_tokens}"]
        for policy, (row, tokens) in _packings(config, self.micro_batch).items():
            chosen.append(f"{policy}.packing={{row_length: {row}, micro_batch_tokens: {tokens}}}")
        return [*chosen, f"model.remat={self.remat}", f"offload.optimizer={str(self.optimizer_offloaded).lower()}"]


@dataclass(frozen=True)
class Candidate:
    """A layout as overrides, none for the one given. seconds: expected of a step; infinite if it does not fit."""

    overrides: tuple[str, ...]
    seconds: float

    @property
    def fits(self) -> bool:
        return math.isfinite(self.seconds)


def search(config: Config, hardware: Hardware, fill: float, reload: Reload, report: Report) -> list[Candidate]:
    """Candidates that were compiled, the shortest expected step first.

    reload: the same configuration with these overrides. report: gets a line for each candidate.
    Raises UserError if no layout fits by arithmetic.
    """
    ranked = rank(config, hardware, fill, reload)
    if not ranked:
        raise UserError(f"no layout fits {hardware.name}: take more chips, adapters (lora) or a smaller model")

    def compiled(layout: Layout | None) -> Candidate:
        overrides, seconds = () if layout is None else tuple(layout.overrides(config)), math.inf
        try:
            plan = make_plan(reload(overrides), hardware, fill, lambda line: None)
            seconds = plan.expected_seconds if plan.fits else math.inf
            outcome = f"{seconds:.4g} s" if plan.fits else "does not fit"
        except (UserError, CompilerError) as error:
            outcome = str(error)
        report(f"{' '.join(overrides) or 'as given'}: {outcome}")
        return Candidate(overrides, seconds)

    # By arithmetic recomputing layers only costs time. But what is kept instead crosses the memory twice, and how often
    # it is copied the compiler alone knows: on v6e, which computes fast for its bandwidth, keeping takes longer.
    candidates = dict.fromkeys([None, *ranked[:COMPILED], replace(ranked[0], remat="full")])
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool:
        return sorted(pool.map(compiled, candidates), key=lambda candidate: candidate.seconds)


def rank(config: Config, hardware: Hardware, fill: float, reload: Reload) -> list[Layout]:
    def estimate(layout: Layout) -> float:
        return estimated_seconds(make_planned_run(reload(layout.overrides(config)), hardware), hardware, fill)

    return sorted(layouts(config, hardware, reload), key=estimate)


def layouts(config: Config, hardware: Hardware, reload: Reload) -> Iterator[Layout]:
    """Every layout that arithmetic finds room for, with as many pages of rollouts as fit.

    It keeps only the cheapest micro-batches, recomputation and offloading that fit together: the largest
    micro-batches, the least recomputation, and moments on the devices.
    """
    for mesh in meshes(config, hardware):
        for offloaded, remat, micro_batch in itertools.product((False, True), reversed(REMAT), reversed(MICRO_BATCHES)):
            layout = Layout(mesh, 1, 1, micro_batch, remat, optimizer_offloaded=offloaded)
            run = make_planned_run(reload(layout.overrides(config)), hardware)
            if learning_memory(run) <= USED * hardware.chip.memory:
                sampled = list(_with_rows(config, run, hardware, layout))
                yield from sampled
                if sampled:
                    break


def meshes(config: Config, hardware: Hardware) -> list[tuple[int, int, int]]:
    """Tensor axes that divide the heads; the other devices split the parameters, or each hold a copy."""
    devices, shapes = hardware.devices, config.by_model(model_shape).values()
    divisors = [n for n in range(1, devices + 1) if devices % n == 0]
    tensors = [n for n in divisors if n <= 8 and all(shape.num_heads % n == 0 for shape in shapes)]
    return sorted({mesh for n in tensors for mesh in ((1, devices // n, n), (devices // n, 1, n))})


def _with_rows(config: Config, run: PlannedRun, hardware: Hardware, layout: Layout) -> Iterator[Layout]:
    loads = sampling_loads(config)
    if not loads:
        yield layout
        return
    most = max(load.prompts * load.samples for load in loads)
    capacities = [run.capacity(load) for load in loads]
    longest = max(capacity.most_pages * capacity.block for capacity in capacities)  # tokens of a sample
    shards, most = run.batch_shards // run.replicas, -(-most // run.replicas)  # of a replica
    for each in ROWS_PER_SHARD:
        held = shards * min(
            int(_free_for_pages(own, hardware, each) / own.token_bytes)
            for own in (run.for_policy(load.policy) for load in loads)
        )
        held = held // 100_000 * 100_000
        if each * shards < 2 * most and held >= shards * longest:
            yield replace(layout, rows=min(each * shards, most), cache_tokens=held)


def _free_for_pages(run: PlannedRun, hardware: Hardware, rows_per_shard: int) -> float:
    """Bytes of a device that are left for the pages of that many rows."""
    logits = LOGITS * 4 * rows_per_shard * run.model.vocab_size / run.tensor
    return USED * hardware.chip.memory - resident(run) - run.compute_param_bytes - logits - SPARE


def learning_memory(run: PlannedRun) -> float:
    least, needed = least_memory(run), []
    for own in (run.for_policy(policy) for policy in training_loads(run.config)):
        gathered = own.compute_param_bytes / own.model.num_layers
        needed.append(least[Phase("gradient", own.policy)] + gathered + _kept_for_backward(own) + SPARE)
    return max(needed)


def host_memory(run: PlannedRun) -> float:
    """Bytes that a run's process takes at most on a CPU, in float32: what XLA adds to widen bfloat16 is left out."""
    phases = []
    for load in sampling_loads(run.config):
        own, capacity = run.for_policy(load.policy), run.capacity(load)
        layers = own.compute_param_bytes - own.itemsize * own.model.vocab_size * own.model.hidden_size
        logits = LOGITS * 4 * capacity.rows * own.model.vocab_size
        phases.append(layers + max(HOST_MERGED * layers, HOST_PAGES * own.cache(capacity) + logits))
    for policy in training_loads(run.config):
        own, packing = run.for_policy(policy), run.config.learners[policy].packing
        kept = _kept_for_backward(own) * (1 if own.settings.remat == "full" else HOST_LAYERS)
        per_token_id = HOST_LOGITS * min(packing.logit_chunk, packing.micro_batch_tokens) + own.model.hidden_size
        phases.append(own.master_bytes + kept + 4 * per_token_id * own.model.vocab_size)
    programs = HOST_PROGRAMS * max(shape.num_layers for shape in run.shapes.values())
    return HOST_PROCESS + programs + resident(run) + max(phases)


def _kept_for_backward(run: PlannedRun) -> float:
    model, recomputes = run.model, run.settings.remat == "full"
    tokens = math.prod(run.micro_batch(run.policy)) / run.batch_shards
    # What the matrices of a layer give; without recomputation all layers' are kept.
    width = 3 * model.intermediate_size + 2 * model.hidden_size
    width += (2 * model.num_heads + 2 * model.num_kv_heads) * model.head_dim
    layer = tokens * width * run.itemsize / run.tensor
    kept = 4 * layer if recomputes else (2 + model.num_layers) * layer
    # Attention is never recomputed: what every layer's has mixed, and a number of each head and token, are kept.
    mixed = tokens * model.num_heads * (model.head_dim * run.itemsize + 4) / run.tensor
    return kept + (model.num_layers * mixed if recomputes else 0)


def estimated_seconds(run: PlannedRun, hardware: Hardware, fill: float) -> float:
    """A step's seconds before anything is compiled: the layout's own table, at assumed efficiencies."""
    total = sum(estimated_sampling(run, hardware, load, fill) for load in sampling_loads(run.config))
    for phase, work in layout_table(run, fill).items():
        if phase.is_sampling:
            continue
        passes, sums, own = PASSES.get(phase.kind, 0), 0.0, run.for_phase(phase)
        gathering = replace(work, received=passes * own.compute_param_bytes * (1 - own.tensor / own.shards))
        if passes:
            tokens = math.prod(own.micro_batch(phase.owner)) / own.batch_shards
            sums = passes * _sums(own, hardware, tokens, times=1)
        total += work.calls * (gathering.seconds(hardware, EFFICIENCY[hardware.platform]) + sums + HOST_SECONDS)
    return total


def estimated_sampling(run: PlannedRun, hardware: Hardware, load: Load, fill: float) -> float:
    """Seconds in which a load is sampled, a step's or an evaluation's; as `estimated_seconds`."""
    run, reached = run.for_policy(load.policy), EFFICIENCY[hardware.platform]
    table = sampling_table(run, load, fill)
    decoding = _decoding(run, hardware, load, table.pop(Phase("decode", load.role)), fill)
    rest = table.values()
    return decoding + sum(work.calls * (work.seconds(hardware, reached) + HOST_SECONDS) for work in rest)


def _decoding(run: PlannedRun, hardware: Hardware, load: Load, work: Work, fill: float) -> float:
    capacity = run.capacity(load)
    block, shards = capacity.block, capacity.batch_shards
    prompt, response = fill * load.prompt, fill * load.response
    kept = prompt / capacity.width + response / 2 + block  # tokens of a row, on average
    rows = min(capacity.rows, capacity.pages * block / kept)
    # All samples one after another, and a tail in which the rows empty.
    blocks = load.prompts * load.samples * response / (rows * block) + load.response / block / 2
    moving = replace(work, traffic=block * run.compute_param_bytes)
    call = moving.seconds(hardware, EFFICIENCY[hardware.platform])
    call = max(call, block * run.model.num_layers * LAYER_SECONDS[hardware.platform])
    call += _sums(run, hardware, block * capacity.rows / shards, times=block)
    read = cache_seconds(run, hardware, int(blocks * block * rows * (kept - block) / shards))
    return blocks * (call + HOST_SECONDS + ROW_SECONDS * capacity.rows) + read


def _sums(run: PlannedRun, hardware: Hardware, tokens: float, times: int) -> float:
    """Seconds in which a tensor axis sums activations, after attention and the feed-forward layer, over all layers."""
    if run.tensor == 1:
        return 0.0
    sent = 2 * (1 - 1 / run.tensor) * tokens * run.model.hidden_size * run.itemsize
    bandwidth = hardware.chip.interconnect * EFFICIENCY[hardware.platform].interconnect
    return 2 * run.model.num_layers * (sent / bandwidth + times * HOP)


def _packings(config: Config, micro_batch: float) -> dict[str, tuple[int, int]]:
    packings = {}
    for policy, loads in training_loads(config).items():
        longest = max(load.length for load in loads)
        useful = min(micro_batch, LONGEST_ROW) * longest  # a longer row pads less, and attention takes longer
        row = math.ceil(useful / TILE) * TILE
        rows = max(1, min(int(micro_batch / LONGEST_ROW), ENOUGH_TOKENS // row))
        packings[policy] = (row, rows * row)
    return packings
