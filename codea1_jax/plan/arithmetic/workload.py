"""What one training step computes: its phases, how often each runs, and what each costs by arithmetic.

Shapes are those of the longest prompts and responses that the configuration allows; how often a phase runs follows from
how long they are on average.
"""

from __future__ import annotations

import functools
from array import array
from dataclasses import dataclass, replace
from typing import Any

from codea1_jax.config import METHODS, Config, PackingConfig, Role
from codea1_jax.learn.batch import Example, PackedBatch
from codea1_jax.learn.packing import SHAPE_STEPS, pack
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.flops import (
    Number,
    adapter_parameters,
    cache_bytes,
    causal,
    layer_matrices,
    layers_flops,
    parameters,
    vocabulary_flops,
)
from codea1_jax.rollout import Capacity, Sampling
from codea1_jax.rollout.capacity import capacity_of
from codea1_jax.rollout.quantize import rounded_numbers
from codea1_jax.rollout.readers import reader_for
from codea1_jax.rollout.sampling import SamplingKind

QUESTIONS = 9_688  # that the paper trains on; a run's own number is known when its data is read
# Problems of the benchmarks that presets validate on; those of other datasets are not counted.
PROBLEMS = {"evalplus/humanevalplus": 164, "evalplus/mbppplus": 378}
# Forward passes, except for attention, that the backward pass repeats, by remat policy.
RECOMPUTED = {"none": 0, "dots": 0, "full": 1}


@dataclass(frozen=True)
class Phase:
    """One jitted function of a step.

    name: for example "decode code". The last word is the role, in sampling, or the policy, in learning.
    calls: in a step. flops: executed by one call, on all devices together, padding and recomputation included.
    useful: FLOPs of a whole step that a perfect implementation would need too.
    traffic: bytes that one call must at least move between a device and its memory.
    """

    name: str
    calls: Number
    flops: Number
    useful: Number
    traffic: Number


def is_sampling(phase: str) -> bool:
    """Whether a phase of that name draws samples; the others learn from them."""
    return phase.startswith(("weights ", "prefill ", "insert ", "decode ", "evaluate "))


@dataclass(frozen=True)
class PlannedRun:
    """A configuration, the shape of its model, and how the mesh splits them.

    platform: as JAX names it ("cpu", "gpu", "tpu"). batch_shards: of a batch. shards: of parameters where they are
    kept. tensor: of the copy that is sampled from.
    """

    config: Config
    model: Architecture
    platform: str
    batch_shards: int
    shards: int
    tensor: int

    @property
    def replicas(self) -> int:
        """Copies of the model."""
        return self.batch_shards * self.tensor // self.shards

    @property
    def itemsize(self) -> int:
        """Bytes of a number that is computed with."""
        return 2 if self.config.model.compute_dtype == "bfloat16" else 4

    @property
    def cache_itemsize(self) -> int:
        """Bytes of a number in the cache."""
        return 1 if self.config.rollout.kv_cache_dtype == "fp8" else self.itemsize

    @property
    def trained(self) -> int:
        """What is trained of a policy: all parameters, or adapters."""
        lora = self.config.lora
        return parameters(self.model) if lora is None else adapter_parameters(self.model, lora)

    @property
    def kept(self) -> float:
        """Bytes of what is trained of a policy, in float32, on a device."""
        return 4 * self.trained / self.shards

    @property
    def gathered(self) -> float:
        """Bytes of a policy's parameters on a device, as computed with: split over `tensor` alone."""
        return self.itemsize * parameters(self.model) / self.tensor

    @property
    def decode_params_bytes(self) -> float:
        """Bytes of the copy that is sampled from, on a device; scales are not counted."""
        saved = self.itemsize - 1 if self.config.rollout.weight_dtype == "int8" else 0
        return self.gathered - saved * self.model.num_layers * rounded_numbers(self.model) / self.tensor

    @property
    def head_parts(self) -> int:
        """Parts in which the mesh splits key/value heads."""
        return self.tensor if self.model.num_kv_heads % self.tensor == 0 else 1

    def cache(self, capacity: Capacity) -> float:
        """Bytes of a rollout's pages on a device."""
        return capacity.pages // self.batch_shards * capacity.block * self.token_bytes

    @property
    def token_bytes(self) -> float:
        """Bytes of a token's keys and values on a device that has it, as wide as its pages."""
        padded = replace(self.model, head_dim=reader_for(self.platform).width(self.model.head_dim))
        return cache_bytes(padded, self.cache_itemsize) / self.head_parts


@dataclass(frozen=True)
class SamplingLoad:
    """The most that a role samples in a step: prompts, each answered `samples` times. Lengths in tokens."""

    role: Role
    policy: str
    prompts: int
    samples: int
    prompt: int
    response: int


@dataclass(frozen=True)
class TrainingLoad:
    """The most that a policy learns from in a step: groups of samples that share a prompt."""

    groups: int
    samples: int
    prompt: int
    response: int

    @property
    def length(self) -> int:
        """Places of one sequence."""
        return self.prompt + self.response - 1


def sampling_loads(config: Config) -> list[SamplingLoad]:
    """What is sampled in a step, role by role."""
    method, rollout, questions = METHODS[config.method.name], config.rollout, config.train.questions
    if method.supervised:
        return []
    lengths = {
        "code": (questions, rollout.samples, rollout.code_prompt_tokens, rollout.code_tokens),
        "test": (questions * rollout.samples, rollout.suites, rollout.test_prompt_tokens, rollout.test_tokens),
    }
    return [SamplingLoad(role, policy, *lengths[role]) for role, policy in method.roles.items()]


def evaluation_loads(config: Config) -> list[tuple[SamplingLoad, int, int]]:
    """The roles that an evaluation asks, with how many prompts and samples of each it asks for.

    The Code LLM answers benchmarks and held-out questions, the Test LLM the latter alone.
    """
    benchmarks = sum(PROBLEMS.get(dataset, 0) for dataset in config.eval.datasets)
    of_files = min(config.data.heldout_problems, int(QUESTIONS * config.data.heldout_share))
    heldout = config.data.heldout_problems if config.data.source == "micro" else of_files
    wanted = {"code": (benchmarks + heldout, config.eval.samples), "test": (heldout, config.eval.suites)}
    asked = sampling_loads(config) if config.eval.every else []
    return [(load, *wanted[load.role]) for load in asked if wanted[load.role][0]]


def kind_in_steps(config: Config) -> SamplingKind:
    """How the decoding program of a step draws."""
    return SamplingKind.of(Sampling(1, config.rollout.temperature, config.rollout.top_p))


def kind_in_evaluations(config: Config) -> SamplingKind:
    """How that of an evaluation draws, which may be another program."""
    return SamplingKind.of(Sampling(1, config.eval.temperature, config.eval.top_p))


def training_loads(config: Config) -> dict[str, list[TrainingLoad]]:
    """What every policy learns from in a step."""
    found: dict[str, list[TrainingLoad]] = {}
    for load in sampling_loads(config):
        groups = config.train.questions * (config.train.update_n if load.role == "test" else 1)
        found.setdefault(load.policy, []).append(TrainingLoad(groups, load.samples, load.prompt, load.response))
    if METHODS[config.method.name].supervised:
        rollout = config.rollout
        found["test"] = [TrainingLoad(config.train.questions, 1, rollout.test_prompt_tokens, rollout.test_tokens)]
    return found


def load_capacity(run: PlannedRun, load: SamplingLoad) -> Capacity:
    """What is resident while a role speaks."""
    most = load.prompts, load.samples, load.prompt, load.response
    return capacity_of(run.config.rollout, run.batch_shards, *most, replicas=run.replicas)


def fullest_batch(run: PlannedRun, policy: str) -> PackedBatch:
    """The largest micro-batch that the packer can make of a policy's loads: its real rows, and all their targets."""
    loads = training_loads(run.config)[policy]
    # The longest sequence decides how long rows are; responses to hardly any prompt fill them with targets.
    longest = max(loads, key=lambda load: load.length)
    packing: Any = run.config.learners[policy].packing  # hashable, being frozen, which pyright does not see
    return _fullest_of(longest, packing, run.batch_shards)


@functools.lru_cache(maxsize=4)  # a plan asks again and again, by policy, of batches that are large
def _fullest_of(load: TrainingLoad, packing: PackingConfig, batch_shards: int) -> PackedBatch:
    rows = batch_shards * max(1, packing.micro_batch_tokens // packing.row_length)
    # The packer shares rows out evenly, or makes the last micro-batch smaller: among several the first is sure to be
    # full.
    each = -(-max(packing.row_length, 2 * load.length) // load.response)
    filling = [example_of(range(1), load.response)] * (SHAPE_STEPS * rows * each)
    return pack([example_of(range(load.prompt), load.response), *filling], packing, batch_shards)[0]


def example_of(prompt: range, response: int) -> Example:
    """Such a prompt with a response of that many tokens, whichever they are."""
    # Arrays: thousands of examples become batches, and NumPy takes a tuple or a range number by number.
    return Example(prompt, array("i", bytes(4 * response)), array("f", [1.0]) * response)


def phases(run: PlannedRun, fill: float = 1.0) -> list[Phase]:
    """Every phase of a step, in the order of the step, and the decoding of evaluations, which no step calls.

    fill: mean length of prompts and responses, as a share of the longest allowed.
    """
    found = [phase for load in sampling_loads(run.config) for phase in _sampling(run, load, fill)]
    return found + [phase for policy in training_loads(run.config) for phase in _learning(run, policy, fill)]


def _sampling(run: PlannedRun, load: SamplingLoad, fill: float) -> list[Phase]:
    model, capacity = run.model, load_capacity(run, load)
    packed, shards = capacity.prefill_buckets[-1], capacity.batch_shards
    prompt, response, samples = load.prompt * fill, load.response * fill, load.prompts * load.samples
    drawn = capacity.rows * capacity.block
    seen = prompt + response / 2  # of a token, on average
    read = (capacity.rows / capacity.width * prompt + capacity.rows * response / 2) / shards
    prefills = load.prompts * prompt / (packed * shards)
    kept = run.itemsize if run.config.lora is not None else 4  # a frozen base is in the precision that it is used in
    found = [
        Phase(
            f"weights {load.role}",
            calls=1,
            flops=0 if run.config.lora is None else 2 * run.config.lora.rank * model.num_layers * layer_matrices(model),
            useful=0,
            traffic=kept * parameters(model) / run.shards + run.decode_params_bytes,
        ),
        Phase(
            f"prefill {load.role}",
            calls=prefills,
            flops=layers_flops(model, shards * packed, shards * packed / prompt * causal(prompt)),
            useful=layers_flops(model, load.prompts * prompt, load.prompts * causal(prompt)),
            traffic=run.decode_params_bytes,
        ),
        Phase(
            f"decode {load.role}",
            calls=samples * response / drawn,
            flops=layers_flops(model, drawn, drawn * seen) + vocabulary_flops(model, drawn),
            useful=layers_flops(model, samples * response, samples * response * seen)
            + vocabulary_flops(model, samples * response),
            traffic=capacity.block * (run.decode_params_bytes + min(read * run.token_bytes, run.cache(capacity))),
        ),
    ]
    evaluated = [each.role for each, *_ in evaluation_loads(run.config)]
    if load.role in evaluated and kind_in_evaluations(run.config) is not kind_in_steps(run.config):
        found.append(Phase(f"evaluate {load.role}", calls=0, flops=0, useful=0, traffic=0))
    if run.config.rollout.engine == "jetstream":
        inserted = packed * run.token_bytes
        found.insert(2, Phase(f"insert {load.role}", prefills, flops=0, useful=0, traffic=2 * inserted))
    return found


def _learning(run: PlannedRun, policy: str, fill: float) -> list[Phase]:
    config, model = run.config, run.model
    grpo, supervised = config.learners[policy].grpo, METHODS[config.method.name].supervised
    batch = fullest_batch(run, policy)
    rows, places = batch.tokens.shape
    those = training_loads(config)[policy]
    tokens, seen = (sum(count(load, fill) for load in those) for count in (_tokens, _seen))
    forward = layers_flops(model, rows * places, rows * places * seen / tokens)
    scored = vocabulary_flops(model, rows * batch.targets.shape[1])
    calls = tokens / (rows * places)
    drawn = sum(load.groups * load.samples * load.response * fill for load in those)
    useful = layers_flops(model, tokens, seen) + vocabulary_flops(model, drawn)
    updates = 1 if supervised else -(-config.train.questions // grpo.mini_batch_questions)
    # Until the first update of a step the policy is the old one, so the first mini-batch is not scored again.
    scorings = {"score-old": 1 - 1 / updates, "score-ref": float(grpo.kl_coef > 0 and not supervised)}
    # A backward pass is two forward ones: for the gradients of activations, and of the matrices, which LoRA spares but
    # for the adapters. Logits are computed again in it, whatever the policy.
    again, backward = RECOMPUTED[config.model.remat], 2 if config.lora is None else 1
    adapters = 0 if config.lora is None else 2 * rows * places * run.trained
    repeated, passes = again * layers_flops(model, rows * places, 0), 1 + backward
    return [
        *(
            Phase(f"{name} {policy}", calls * share, forward + scored, useful * share, run.gathered)
            for name, share in scorings.items()
            if share
        ),
        Phase(
            f"gradient {policy}",
            calls=calls,
            flops=passes * forward + repeated + (2 + backward) * scored + (3 + again) * adapters,
            useful=(1 + backward) * useful,
            traffic=(passes + again) * run.gathered + 2 * run.kept,
        ),
        # The zeros that a mini-batch's gradient is added to.
        Phase(f"clear {policy}", calls=updates, flops=0, useful=0, traffic=run.kept),
        # AdamW reads gradient, parameters and two moments, and writes the last three.
        Phase(f"update {policy}", calls=updates, flops=0, useful=0, traffic=7 * run.kept),
    ]


def _tokens(load: TrainingLoad, fill: float) -> Number:
    """Tokens of a load's sequences, each prompt once."""
    return load.groups * fill * (load.prompt + load.samples * load.response)


def _seen(load: TrainingLoad, fill: float) -> Number:
    """Places that these tokens look at together."""
    prompt, response = fill * load.prompt, fill * load.response
    return load.groups * (causal(prompt) + load.samples * (response * prompt + causal(response)))


def sampled_tokens(config: Config, fill: float = 1.0) -> Number:
    """Tokens that are drawn in a step."""
    return sum(load.prompts * load.samples * load.response * fill for load in sampling_loads(config))
