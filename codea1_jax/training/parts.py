"""A configuration put together: all that training uses and does not change."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial

import grain
from jax.sharding import Mesh

from codea1_jax.config import METHODS, Config, Role, SandboxConfig
from codea1_jax.evals.during_training import Evaluation
from codea1_jax.evals.heldout import prepare
from codea1_jax.game.players import PolicyPlayer
from codea1_jax.game.rewards import PAPER_REWARDS, RewardFunctions
from codea1_jax.game.round import Game
from codea1_jax.learn import Learner
from codea1_jax.learn.learning import Learning, Shapes
from codea1_jax.models.decoder import Params
from codea1_jax.models.policy import Policy
from codea1_jax.models.sharding import make_mesh
from codea1_jax.rollout.sampler import Counters
from codea1_jax.runtime.gather import from_first
from codea1_jax.training.policies import InitialWeights, by_role, make_policies, make_prompts
from codea1_jax.training.questions import NONE_GIVEN, GivenQuestions, Questions, load_questions
from codea1_jax.training.samplers import RoleSampler, make_role_samplers
from data_pipeline import Problem
from data_pipeline.benchmark import make_benchmark
from data_pipeline.loader import batches
from sandbox import Judge, Limits, ReferenceCache, SandboxPool, SandboxUnavailable
from sandbox.host.doctor import try_out
from sandbox.remote.bearer import read_token
from sandbox.remote.client import RemoteJudge

logger = logging.getLogger(__name__)

SAMPLING_STAGES: Mapping[Role, str] = {"code": "generate_code", "test": "generate_tests"}  # as a step times them


@dataclass(frozen=True)
class Policies:
    """The policies in training, by name: what they are, what they start from, and how each of them learns.

    weights: one and the same object for policies of one model.
    """

    named: Mapping[str, Policy]
    weights: Mapping[str, InitialWeights]
    mesh: Mesh
    learning: Learning
    learners: Mapping[str, Learner]

    @cached_property
    def shapes(self) -> dict[str, Shapes]:
        models = {name: policy.model for name, policy in self.named.items()}
        return self.learning.abstract(self.learners, models, self.mesh)

    @property
    def reference(self) -> str | None:
        """A policy whose weights at step 0 are kept for all of its model that compare with them; None: none does."""
        common = (name for name, learner in self.learning.sections.items() if learner.model is None)
        return next(common) if self.learning.shares_reference else None


@dataclass(frozen=True)
class Games:
    """Everything of a game but its players' parameters. roles: the policy that plays each trained role.

    rewards: instead of the paper's.
    """

    roles: Mapping[Role, str]
    samplers: Mapping[Role, RoleSampler]
    judge: Judge
    config: Config
    rewards: RewardFunctions

    def game(self, params: Mapping[str, Params], **sampling: float) -> Game:
        """The game of a training step, with every policy's parameters by its name.

        sampling: fields of a `Sampling`, where its players are sampled in another way.
        """

        def player(role: Role) -> PolicyPlayer | None:
            name, sampler = self.roles.get(role), self.samplers[role]
            return None if name is None else sampler.player(params[name], replace(sampler.sampling, **sampling))

        prompts = self.samplers["test"].prompts
        return Game(player("code"), player("test"), self.judge, self.config, prompts, self.rewards)

    def counters(self) -> dict[Role, Counters]:
        return {role: replace(sampler.sampler.counters) for role, sampler in self.samplers.items()}

    def goodput(self, before: Mapping[Role, Counters], seconds: Mapping[str, float]) -> dict[str, float]:
        work = {role: sampler.sampler.counters.since(before[role]) for role, sampler in self.samplers.items()}
        return {
            f"{figure}/{stage}": value
            for role, stage in SAMPLING_STAGES.items()
            if stage in seconds
            for figure, value in work[role].goodput(seconds[stage]).items()
        }


@dataclass(frozen=True)
class Training:
    config: Config
    policies: Policies
    games: Games
    evaluation: Evaluation
    questions: Questions

    @property
    def total_steps(self) -> int:
        return self.config.train.total_steps(len(self.questions.train))

    def loader(self) -> grain.DatasetIterator[tuple[Problem, ...]]:
        return batches(self.questions.train, self.config.train.questions, self.config.run.seed)


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


def make_training(
    config: Config, judge: Judge, given: GivenQuestions = NONE_GIVEN, rewards: RewardFunctions = PAPER_REWARDS
) -> Training:
    """Everything but the state. Raises UserError for what the configuration names and cannot be used."""
    method, mesh = METHODS[config.method.name], make_mesh(config.mesh)
    named = make_policies(config)
    players = by_role(config, named)
    prompts = make_prompts(config, players)
    questions = load_questions(config, prompts, judge, given)
    samplers = make_role_samplers(config, players, prompts, questions, mesh)
    learning = Learning(config)
    total_steps = config.train.total_steps(len(questions.train))
    longest = {
        name: max(samplers[role].longest_example for role, player in method.roles.items() if player == name)
        for name in named
    }
    learners = learning.learners({name: policy.model for name, policy in named.items()}, total_steps, mesh, longest)
    evaluation = Evaluation(
        config.eval,
        prepare(questions.heldout if config.eval.every else (), judge),
        from_first(lambda: make_benchmark(questions.benchmark, judge)),
        tuple(method.roles),
        config.rewards.suite_size,
        method.supervised,
    )
    return Training(
        config,
        policies=Policies(named, config.by_model(partial(InitialWeights, config)), mesh, learning, learners),
        games=Games(method.roles, samplers, judge, config, rewards),
        evaluation=evaluation,
        questions=questions,
    )
