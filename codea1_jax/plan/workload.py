"""What a training step is asked for: in which phases, how many prompts and samples of whom, how long."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from codea1_jax.config import METHODS, Config, Role
from codea1_jax.config.run import ROUNDS
from codea1_jax.models.ahead import Kind
from codea1_jax.models.flops import Number, causal
from codea1_jax.rollout import Sampling
from codea1_jax.rollout.sampling import SamplingKind

QUESTIONS = 9_688  # that the paper trains on; a run's own number is known when its data is read
# Problems of the benchmarks that presets validate on; those of other datasets are not counted.
PROBLEMS = {"evalplus/humanevalplus": 164, "evalplus/mbppplus": 378}
# Of log-normal distributions; real responses to KodCode's questions are about as ragged, their prompts less so.
RESPONSE_SPREAD = 0.6
PROMPT_SPREAD = 0.4


class Phase(NamedTuple):
    """One jitted function of a step, and whose: a role's in sampling, a policy's in learning."""

    kind: Kind
    owner: str

    @property
    def is_sampling(self) -> bool:
        return self.kind in ("weights", "prefill", "decode", "evaluate")

    def __str__(self) -> str:
        return f"{self.kind} {self.owner}"


@dataclass(frozen=True)
class Group:
    prompt: Number
    responses: tuple[Number, ...]

    @property
    def drawn(self) -> Number:
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
        """Places of one sequence: the last token is only predicted."""
        return self.prompt + self.response - 1

    def mean_group(self, fill: float) -> Group:
        """A prompt and its samples, all of them at this share of the longest; not in whole tokens."""
        return Group(self.prompt * fill, (self.response * fill,) * self.samples)


def sampling_loads(config: Config) -> list[Load]:
    method, rollout, questions = METHODS[config.method.name], config.rollout, config.train.questions
    if method.supervised:
        return []
    lengths = {
        "code": (questions, rollout.samples, rollout.code_prompt_tokens, rollout.code_tokens),
        "test": (questions * rollout.samples, rollout.suites, rollout.test_prompt_tokens, rollout.test_tokens),
    }
    return [Load(role, policy, *lengths[role]) for role, policy in method.roles.items()]


def training_loads(config: Config) -> dict[str, list[Load]]:
    rollout, questions = config.rollout, config.train.questions
    if METHODS[config.method.name].supervised:
        return {"test": [Load("test", "test", questions, 1, rollout.test_prompt_tokens, rollout.test_tokens)]}
    loads: dict[str, list[Load]] = {}
    for load in sampling_loads(config):
        groups = questions * (config.train.update_n if load.role == "test" else 1)
        loads.setdefault(load.policy, []).append(replace(load, prompts=groups))
    return loads


def evaluation_loads(config: Config, heldout: int | None = None) -> list[Load]:
    """What an evaluation samples: programs for benchmarks and held-out questions; for the latter also suites against a
    wrong program, and those of the five rounds. heldout: how many these are, where they have been counted.
    """
    benchmarks = sum(PROBLEMS.get(dataset, 0) for dataset in config.eval.datasets)
    of_files = min(config.data.heldout_problems, int(QUESTIONS * config.data.heldout_share))
    if heldout is None:
        heldout = config.data.heldout_problems if config.data.source == "micro" else of_files
    counts = {
        "code": [(benchmarks + heldout, config.eval.samples)],
        "test": [(heldout, config.eval.suites), (heldout, ROUNDS)],
    }
    return [
        replace(load, prompts=prompts, samples=samples)
        for load in (sampling_loads(config) if config.eval.every else ())
        for prompts, samples in counts[load.role]
        if prompts
    ]


def updates_of(config: Config, policy: str) -> int:
    supervised = METHODS[config.method.name].supervised
    return 1 if supervised else -(-config.train.questions // config.learners[policy].grpo.mini_batch_questions)


def is_anchored(config: Config, policy: str) -> bool:
    return config.learners[policy].grpo.kl_coef > 0 and not METHODS[config.method.name].supervised


def sampling_kind(config: Config, policy: str) -> SamplingKind:
    return SamplingKind.of(Sampling(1, *config.sampling_of(policy)))


def evaluation_kind(config: Config) -> SamplingKind:
    return SamplingKind.of(Sampling(1, config.eval.temperature, config.eval.top_p))


def draw_groups(load: Load, fill: float) -> list[Group]:
    """Log-normal lengths whose mean is `fill` of the longest allowed before they are cut to that."""
    chance = np.random.default_rng((0, len(load.role)))
    prompts = _log_normal(chance, fill * load.prompt, PROMPT_SPREAD, (load.prompts,), load.prompt)
    shape = (load.prompts, load.samples)
    responses = _log_normal(chance, fill * load.response, RESPONSE_SPREAD, shape, load.response)
    return [Group(int(prompt), tuple(map(int, row))) for prompt, row in zip(prompts, responses, strict=True)]


def _log_normal(
    chance: np.random.Generator, mean: float, spread: float, shape: tuple[int, ...], longest: int
) -> np.ndarray:
    drawn = chance.lognormal(np.log(mean) - spread**2 / 2, spread, shape)
    return np.clip(np.ceil(drawn), 1, longest).astype(int)
