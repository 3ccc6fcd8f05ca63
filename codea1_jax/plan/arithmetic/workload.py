"""What a training step is asked for: in which phases, how many prompts and samples of whom, how long."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from codea1_jax.config import METHODS, Config, PackingConfig, Role
from codea1_jax.learn.batch import Example, PackedBatch
from codea1_jax.learn.packing import SHAPE_STEPS, pack
from codea1_jax.models.flops import Number, causal
from codea1_jax.plan.arithmetic.planned_run import PlannedRun
from codea1_jax.rollout import Capacity, Sampling
from codea1_jax.rollout.capacity import capacity_of
from codea1_jax.rollout.sampling import SamplingKind

QUESTIONS = 9_688  # that the paper trains on; a run's own number is known when its data is read
# Problems of the benchmarks that presets validate on; those of other datasets are not counted.
PROBLEMS = {"evalplus/humanevalplus": 164, "evalplus/mbppplus": 378}

Kind = Literal[
    "weights", "prefill", "insert", "decode", "evaluate", "score-old", "score-ref", "gradient", "clear", "update"
]


class Phase(NamedTuple):
    """One jitted function of a step, and whose: a role's in sampling, a policy's in learning."""

    kind: Kind
    owner: str

    @classmethod
    def named(cls, text: str) -> Phase:
        """The phase that is written so, as in "decode code"."""
        return cls(*text.split())  # pyright: ignore[reportArgumentType]

    @property
    def is_sampling(self) -> bool:
        """Whether it draws samples; the others learn from them."""
        return self.kind in ("weights", "prefill", "insert", "decode", "evaluate")

    def __str__(self) -> str:
        return f"{self.kind} {self.owner}"


@dataclass(frozen=True)
class Group:
    """The tokens of a prompt and of each of its responses.

    learned: whether a policy may learn from them. weighted: which responses have an advantage; None: not known.
    Without responses it stands for one that could have been sampled and was not.
    """

    prompt: Number
    responses: tuple[Number, ...]
    learned: bool = True
    weighted: tuple[bool, ...] | None = None

    @property
    def drawn(self) -> Number:
        """Tokens of all responses."""
        return sum(self.responses)

    @property
    def tokens(self) -> Number:
        """Those and the prompt's, once."""
        return self.prompt + self.drawn

    @property
    def seen(self) -> Number:
        """Places that these tokens look at together."""
        return causal(self.prompt) + self.prompt * self.drawn + sum(map(causal, self.responses))


@dataclass(frozen=True)
class Load:
    """The most that a step samples of a role, or learns from it: prompts with samples. Lengths in tokens."""

    role: Role
    policy: str
    prompts: int
    samples: int
    prompt: int
    response: int

    @property
    def length(self) -> int:
        """Places of one sequence."""
        return self.prompt + self.response - 1

    def mean_group(self, fill: float) -> Group:
        """A prompt and its samples, all of them at this share of the longest; not in whole tokens."""
        return Group(self.prompt * fill, (self.response * fill,) * self.samples)


def sampling_loads(config: Config) -> list[Load]:
    """What is sampled in a step, role by role."""
    method, rollout, questions = METHODS[config.method.name], config.rollout, config.train.questions
    if method.supervised:
        return []
    lengths = {
        "code": (questions, rollout.samples, rollout.code_prompt_tokens, rollout.code_tokens),
        "test": (questions * rollout.samples, rollout.suites, rollout.test_prompt_tokens, rollout.test_tokens),
    }
    return [Load(role, policy, *lengths[role]) for role, policy in method.roles.items()]


def training_loads(config: Config) -> dict[str, list[Load]]:
    """What every policy learns from in a step."""
    rollout, questions = config.rollout, config.train.questions
    if METHODS[config.method.name].supervised:
        return {"test": [Load("test", "test", questions, 1, rollout.test_prompt_tokens, rollout.test_tokens)]}
    found: dict[str, list[Load]] = {}
    for load in sampling_loads(config):
        groups = questions * (config.train.update_n if load.role == "test" else 1)
        found.setdefault(load.policy, []).append(replace(load, prompts=groups))
    return found


def evaluation_loads(config: Config) -> list[Load]:
    """What an evaluation samples: the Code LLM answers benchmarks and held-out questions, the Test LLM the latter."""
    benchmarks = sum(PROBLEMS.get(dataset, 0) for dataset in config.eval.datasets)
    of_files = min(config.data.heldout_problems, int(QUESTIONS * config.data.heldout_share))
    heldout = config.data.heldout_problems if config.data.source == "micro" else of_files
    wanted = {"code": (benchmarks + heldout, config.eval.samples), "test": (heldout, config.eval.suites)}
    asked = sampling_loads(config) if config.eval.every else []
    loads = [replace(load, prompts=wanted[load.role][0], samples=wanted[load.role][1]) for load in asked]
    return [load for load in loads if load.prompts]


def at(run: PlannedRun, phase: Phase) -> PlannedRun:
    """The run, looking at the model of a phase."""
    roles: Mapping[Any, str] = METHODS[run.config.method.name].roles
    return run.of(roles[phase.owner] if phase.is_sampling else phase.owner)


def updates_of(config: Config, policy: str) -> int:
    """Mini-batches, and so optimizer updates, of a policy's step."""
    supervised = METHODS[config.method.name].supervised
    return 1 if supervised else -(-config.train.questions // config.learners[policy].grpo.mini_batch_questions)


def is_anchored(config: Config, policy: str) -> bool:
    """Whether a policy's samples are scored by the reference as well."""
    return config.learners[policy].grpo.kl_coef > 0 and not METHODS[config.method.name].supervised


def kind_in_steps(config: Config) -> SamplingKind:
    """How the decoding program of a step draws."""
    return SamplingKind.of(Sampling(1, config.rollout.temperature, config.rollout.top_p))


def kind_in_evaluations(config: Config) -> SamplingKind:
    """How that of an evaluation draws, which may be another program."""
    return SamplingKind.of(Sampling(1, config.eval.temperature, config.eval.top_p))


def load_capacity(run: PlannedRun, load: Load) -> Capacity:
    """What is resident while a role speaks."""
    most = load.prompts, load.samples, load.prompt, load.response
    return capacity_of(run.config.rollout, run.batch_shards, *most, replicas=run.replicas)


def role_capacity(run: PlannedRun, role: str) -> Capacity:
    """What is resident while that role speaks in a step."""
    return next(load_capacity(run, load) for load in sampling_loads(run.config) if load.role == role)


def fullest_batch(run: PlannedRun, policy: str) -> PackedBatch:
    """The largest micro-batch that the packer can make of a policy's loads: its real rows, and all their targets."""
    # The longest sequence decides how long rows are; responses to hardly any prompt fill them with targets.
    longest = max(training_loads(run.config)[policy], key=lambda load: load.length)
    packing: Any = run.config.learners[policy].packing  # hashable, being frozen, which pyright does not see
    return _fullest_of(longest.prompt, longest.response, packing, run.batch_shards)


@functools.lru_cache(maxsize=4)  # a plan asks again and again, by policy, of batches that are large
def _fullest_of(prompt: int, response: int, packing: PackingConfig, batch_shards: int) -> PackedBatch:
    rows = batch_shards * max(1, packing.micro_batch_tokens // packing.row_length)
    # The packer shares rows out evenly, or makes the last micro-batch smaller: among several the first is sure to be
    # full.
    each = -(-max(packing.row_length, 2 * (prompt + response - 1)) // response)
    filling = [example_of(range(1), response)] * (SHAPE_STEPS * rows * each)
    return pack([example_of(range(prompt), response), *filling], packing, batch_shards)[0]


def example_of(prompt: range, response: int) -> Example:
    """Such a prompt with a response of that many tokens, whichever they are."""
    # Arrays: thousands of examples become batches, and NumPy takes a tuple or a range number by number.
    return Example(prompt, array("i", bytes(4 * response)), array("f", [1.0]) * response)
