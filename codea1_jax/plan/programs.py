"""The jitted phases of a run, lowered from shapes alone: the very functions that training calls.

Nothing here needs an accelerator, weights or data: a mesh over devices that are not there will do.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.stages import Lowered

from codea1_jax.config import OffloadConfig
from codea1_jax.learn import Learner, PolicyState
from codea1_jax.learn.learning import Learning, Shapes
from codea1_jax.models import ahead
from codea1_jax.models.decoder import Params, Transformer
from codea1_jax.plan.compiler import ProgramName
from codea1_jax.plan.forecast import largest_shape
from codea1_jax.plan.phases import layout_table
from codea1_jax.plan.planned_run import PlannedRun
from codea1_jax.plan.workload import (
    Load,
    Phase,
    evaluation_kind,
    sampling_kind,
    sampling_loads,
    training_loads,
    updates_of,
)
from codea1_jax.rollout.programs import sampling_programs
from codea1_jax.rollout.sampling import SamplingKind

EOS = (-1,)  # which token ends a response changes nothing that is compiled but a number


@dataclass(frozen=True)
class Program:
    """One phase, at its largest or at a smaller shape.

    program: as the run compiles it. resident: bytes that lie on every device meanwhile and are none of its arguments.
    """

    name: ProgramName
    program: ahead.Program
    resident: int

    def lower(self) -> Lowered:
        return self.program.lower()


def device_bytes(tree: Any) -> int:
    return sum(x.dtype.itemsize * math.prod(x.sharding.shard_shape(x.shape)) for x in jax.tree.leaves(tree))


def bytes_at_rest(state: PolicyState, offload: OffloadConfig) -> int:
    """Bytes of a policy that stay on one device between its phases; what waits in host memory does not.

    The shapes do not tell: GPUs that are not there know no memory but their own.
    """
    return device_bytes(replace(state, opt_state=None) if offload.optimizer else state)


def make_programs(run: PlannedRun, mesh: Mesh, names: Sequence[ProgramName] | None = None) -> Iterator[Program]:
    """These programs of a step, phase by phase; without `names` every phase at its largest."""
    config, learning = run.config, Learning(run.config)
    wanted = set(names or map(ProgramName, layout_table(run)))
    models = {name: _transformer(run.for_policy(name)) for name in learning.sections}
    longest = {name: max(load.length for load in loads) for name, loads in training_loads(config).items()}
    learners = learning.learners(models, 1, mesh, longest)
    shapes = learning.abstract(learners, models, mesh)
    always = sum(bytes_at_rest(each.state, config.offload) for each in shapes.values())
    always += sum(map(device_bytes, {id(each.shared): each.shared for each in shapes.values()}.values()))
    for load in sampling_loads(config):
        yield from _sampling(run, load, models[load.policy], shapes[load.policy].sampled, mesh, always, wanted)
    for name, learner in learners.items():
        yield from _learning(run.for_policy(name), learner, shapes[name], always, wanted)


def _transformer(run: PlannedRun) -> Transformer:
    model = run.settings
    return Transformer(run.model, jnp.dtype(model.compute_dtype), jnp.dtype("float32"), model.remat, model.attention)


def _name(run: PlannedRun, phase: Phase, program: ahead.Program) -> ProgramName:
    return ProgramName(phase, () if program.shape == largest_shape(run, phase) else program.shape)


def _sampling(
    run: PlannedRun,
    load: Load,
    model: Transformer,
    params: Params,
    mesh: Mesh,
    always: int,
    wanted: Collection[ProgramName],
) -> Iterator[Program]:
    """`params`: of the policy that is sampled, adapted ones too."""
    capacity = run.for_policy(load.policy).capacity(load)
    kinds: dict[ahead.Kind, SamplingKind] = {
        "decode": sampling_kind(run.config, load.policy),
        "evaluate": evaluation_kind(run.config),
    }
    for decoding, kind in kinds.items():
        for program in sampling_programs(model, mesh, capacity, EOS, kind, params):
            if program.kind != "decode" and decoding == "evaluate":
                continue
            name = _name(run, Phase(decoding if program.kind == "decode" else program.kind, load.role), program)
            moved = device_bytes(program.arguments) if program.kind == "weights" else 0
            if name in wanted:
                yield Program(name, program, always - moved)


def _learning(
    run: PlannedRun, learner: Learner, shapes: Shapes, always: int, wanted: Collection[ProgramName]
) -> Iterator[Program]:
    state, offload = shapes.state, run.config.offload
    programs = list(learner.programs(state, shapes.shared, learner.shapes, updates=updates_of(run.config, run.policy)))
    # A step's batches are all on the devices before the first is learned from.
    (batch,) = (each.arguments[2] for each in programs if each.kind == "gradient" and each.shape == learner.shapes[0])
    waiting = math.ceil(layout_table(run)[Phase("gradient", run.policy)].calls) * device_bytes(batch)

    def besides(program: ahead.Program) -> int:
        arguments = program.arguments
        match program.kind:
            case "update":
                return -bytes_at_rest(replace(state, reference=None), offload)
            case "clear":
                return waiting
            case "gradient":
                return waiting - device_bytes((arguments[1], arguments[4]))
            case _:
                return waiting - device_bytes(arguments[0])

    for program in programs:
        name = _name(run, Phase(program.kind, run.policy), program)
        if name in wanted:
            yield Program(name, program, always + besides(program))
