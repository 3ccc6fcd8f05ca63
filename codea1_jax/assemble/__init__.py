"""From a configuration to the parts of a run: judge, policy, weights, questions, players, learners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import grain
from jax.sharding import Mesh

from codea1_jax.assemble.convert import own_start
from codea1_jax.assemble.judges import make_judge
from codea1_jax.assemble.players import Player, make_players
from codea1_jax.assemble.policies import (
    base_params,
    initial_params,
    learner_settings,
    make_learners,
    make_policy,
    make_prompts,
    shares_reference,
)
from codea1_jax.assemble.questions import Questions, load_questions
from codea1_jax.config import Config
from codea1_jax.evals.benchmark import Benchmark, make_benchmark
from codea1_jax.evals.heldout import HeldOut, prepare
from codea1_jax.game.prompts import Prompts
from codea1_jax.game.round import Rules, Speaker, Table, nobody
from codea1_jax.game.scoring import Scoring
from codea1_jax.game.sharing import from_first
from codea1_jax.learn import Groups, Imitation, Learner
from codea1_jax.methods import METHODS, Method, Role
from codea1_jax.models.policy import Policy
from codea1_jax.models.qwen2 import Params
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.utilization import peak_flops, update_speed
from data_pipeline import Problem
from data_pipeline.loader import batches
from sandbox import Judge

__all__ = [
    "Parts",
    "Player",
    "Questions",
    "base_params",
    "initial_params",
    "make_judge",
    "make_parts",
    "make_policy",
    "make_prompts",
    "own_start",
]


@dataclass(frozen=True)
class Parts:
    """All that training uses and does not change."""

    config: Config
    policy: Policy
    mesh: Mesh
    prompts: Prompts
    questions: Questions
    rules: Rules
    players: tuple[Player, Player]
    method: Method
    learners: Mapping[str, Learner | Imitation]
    heldout: HeldOut
    benchmark: Benchmark
    pool: Judge
    total_steps: int

    @property
    def needs_reference(self) -> bool:
        """Whether the policy at step 0 is kept."""
        return shares_reference(self.config, self.method)

    def update_speed(self, name: str, lessons: Groups, seconds: float) -> dict[str, float]:
        """How fast a policy's update was (`plan.utilization`)."""
        return update_speed(
            self.policy.model.config,
            learner_settings(self.config, self.method)[name],
            self.config.lora,
            self.learners[name].computed(lessons),
            supervised=self.method.supervised,
            seconds=seconds,
            peak=peak_flops(self.mesh.devices.flat),
        )

    def table(
        self, params: Mapping[str, Params], temperature: float | None = None, top_p: float | None = None
    ) -> Table:
        """The models at the table, with every policy's parameters; sampled as in training unless told otherwise."""
        rollout = self.config.rollout
        heat = rollout.temperature if temperature is None else temperature
        nucleus = rollout.top_p if top_p is None else top_p

        def speaker(role: Role, player: Player) -> Speaker:
            policy = self.method.roles.get(role)
            return nobody if policy is None else player.speak(params[policy], heat, nucleus)

        code_player, test_player = self.players
        return Table(
            code=speaker("code", code_player),
            test=speaker("test", test_player),
            prompts=self.prompts,
            decode=self.policy.tokenizer.decode,
            pool=self.pool,
        )

    def loader(self) -> grain.DatasetIterator[tuple[Problem, ...]]:
        """The training questions, a batch a step, from the beginning."""
        return batches(self.questions.train, self.config.train.questions, self.config.run.seed)


def make_parts(config: Config, pool: Judge) -> Parts:
    """Everything but the state."""
    policy = make_policy(config)
    mesh = make_mesh(config.mesh)
    prompts = make_prompts(config, policy)
    questions = load_questions(config, prompts, pool)
    total_steps = config.train.total_steps(len(questions.train))
    players = make_players(config, policy, prompts, questions, mesh)
    method = METHODS[config.method.name]
    return Parts(
        config=config,
        policy=policy,
        mesh=mesh,
        prompts=prompts,
        questions=questions,
        rules=_rules(config, players[1].longest_prompt),
        players=players,
        method=method,
        learners=make_learners(config, method, policy.model, total_steps, mesh),
        heldout=from_first(lambda: prepare(questions.heldout if config.eval.every else (), pool)),
        benchmark=from_first(lambda: make_benchmark(questions.benchmark, pool)),
        pool=pool,
        total_steps=total_steps,
    )


def _rules(config: Config, longest_test_prompt: int) -> Rules:
    """How rounds are played; the Test LLM's player takes prompts of up to `longest_test_prompt` tokens."""
    rollout = config.rollout
    return Rules(
        samples=rollout.samples,
        suites=rollout.suites,
        share_programs=rollout.share_programs,
        test_prompt_tokens=longest_test_prompt,
        scoring=Scoring(config.rewards, config.train.update_n, config.method.answer_prediction),
        white_box=config.method.white_box,
    )
