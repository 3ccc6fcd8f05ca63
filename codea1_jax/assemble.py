"""From a configuration to the parts of a run: policy, weights, questions, players, learners."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import grain
import jax
import jax.numpy as jnp

import data_pipeline
from codea1_jax.config import Config, LearnerConfig
from codea1_jax.evals.heldout import HeldOut, prepare
from codea1_jax.game.prompts import Prompts, chat_prompts, plain_prompts
from codea1_jax.game.round import Rules, Speaker, Table
from codea1_jax.game.scoring import Scoring
from codea1_jax.game.warm_start import warm_start
from codea1_jax.learn import Learner
from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.policy import Policy, pretrained_policy, save_policy
from codea1_jax.models.qwen2 import Params, Qwen2, init_params
from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.models.weights import load_params, resolve
from codea1_jax.rollout import Capacity, Sampler, Sampling
from codea1_jax.run.config import ConfigError
from data_pipeline import Loaded, Problem, Refusal, micro
from data_pipeline.loader import batches
from data_pipeline.sources import split_of
from sandbox import Judge, Limits, SandboxPool, SandboxUnavailable
from sandbox.bearer import read_token
from sandbox.fusion import FusionJudge
from sandbox.remote import RemoteJudge

logger = logging.getLogger(__name__)

BLOCK = 8  # tokens decoded between two looks of the scheduler


def make_policy(config: Config) -> Policy:
    """The architecture and tokenizer that both roles share."""
    dtype = jnp.dtype(config.model.compute_dtype)
    if config.model.pretrained is not None:
        return pretrained_policy(resolve(config.model.pretrained), dtype=dtype, remat=config.model.remat)
    assert config.model.architecture is not None  # the configuration has exactly one source
    tokenizer = micro_tokenizer(micro.WORDS)
    try:
        shape = Qwen2Config(vocab_size=tokenizer.vocab_size, **config.model.architecture.model_dump())
    except ValueError as error:
        raise ConfigError(f"model.architecture: {error}") from error
    return Policy(Qwen2(shape, dtype, jnp.dtype("float32"), config.model.remat), tokenizer)


def initial_params(config: Config, policy: Policy) -> Params:
    """What both policies start from: pretrained weights, a warm start (cached by what made it), or random weights."""
    if config.model.pretrained is not None:
        return load_params(resolve(config.model.pretrained), policy.model)
    if config.warm_start is None:
        return init_params(policy.model, jax.random.key(config.run.seed))
    made_by = {
        "warm_start": config.warm_start.model_dump(mode="json"),
        "model": config.model.model_dump(mode="json"),
        "vocabulary": micro.WORDS,
        "corpus": [vars(transcript) for transcript in micro.warm_start(100, config.run.seed)],
        "seed": config.run.seed,
    }
    digest = hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()[:16]
    cached = Path(config.warm_start_cache) / digest
    if cached.exists():
        logger.info("warm start: found in %s", cached)
        return load_params(cached, policy.model)
    params = warm_start(policy, config.warm_start, config.run.seed)
    unfinished = cached.with_name(f"{digest}.{os.getpid()}.tmp")
    save_policy(unfinished, policy, params)
    try:
        unfinished.rename(cached)
    except OSError:
        if not cached.exists():
            raise
        shutil.rmtree(unfinished)  # another run made the same in the meantime
    return params


def make_prompts(config: Config, policy: Policy) -> Prompts:
    """The prompts of both roles in the configured style."""
    if config.prompts == "plain":
        return plain_prompts(policy.tokenizer)
    return chat_prompts(policy.tokenizer, config.rewards.suite_size)


def judge_limits(config: Config) -> Limits:
    """What one judged program may use."""
    return Limits(call_seconds=config.sandbox.call_seconds, memory_mb=config.sandbox.memory_mb)


def make_pool(config: Config) -> Judge:
    """The judge. Raises SandboxUnavailable, saying what is missing, if it cannot run here or nobody answers there."""
    settings, limits = config.sandbox, judge_limits(config)
    if settings.backend == "http":
        return RemoteJudge(settings.addresses, read_token(), limits, settings.workers)
    if settings.backend == "sandbox_fusion":
        return FusionJudge(settings.addresses, limits, settings.workers)
    try:
        return SandboxPool(settings.workers, settings.backend, limits)
    except SandboxUnavailable as error:
        if settings.fallback == "none":
            raise
        logger.warning("no jail here (%s); sandbox.fallback=process: programs are judged WITHOUT a jail", error)
        return SandboxPool(settings.workers, "process", limits)


@dataclass(frozen=True)
class Questions:
    """Questions to train on, held-out ones, and those refused with the reason."""

    train: tuple[Problem, ...]
    heldout: tuple[Problem, ...]
    refused: tuple[Refusal, ...]


def load_questions(config: Config, prompts: Prompts, pool: Judge) -> Questions:
    """Reads the source, refuses questions by reason, and parts training questions from held-out ones.

    A file's held-out questions are one in ten, by a hash of the solution; the micro world's have programs of their
    own and are the same for every seed, so that runs can be compared.

    Raises ConfigError for an unreadable source, or if too few questions are left to train on.
    """
    data = config.data
    refused: tuple[Refusal, ...] = ()
    if data.source == "micro":
        train = micro.problems("train", data.problems, config.run.seed)
        heldout = micro.problems("heldout", data.heldout_problems, 0)
    else:
        loaded = _load_file(data.source, pool)
        refused = loaded.refused
        train = tuple(p for p in loaded.problems if split_of(p) == "train")
        heldout = tuple(p for p in loaded.problems if split_of(p) == "heldout")[: data.heldout_problems]
    short = {p.id for p in (*train, *heldout) if _fits(p, prompts, config)}
    refused += tuple(Refusal(p.id, "its prompt is too long") for p in (*train, *heldout) if p.id not in short)
    train = tuple(p for p in train if p.id in short)
    if len(train) < config.train.questions:
        raise ConfigError(
            f"data.source: {data.source} leaves {len(train)} questions and refuses {len(refused)}; "
            f"a step needs train.questions={config.train.questions}"
        )
    return Questions(train, tuple(p for p in heldout if p.id in short), refused)


def _load_file(source: str, pool: Judge) -> Loaded:
    try:
        return data_pipeline.validate(data_pipeline.load(source, "all"), pool)
    except (ValueError, OSError) as error:
        raise ConfigError(f"data.source: {error}") from error


def _fits(problem: Problem, prompts: Prompts, config: Config) -> bool:
    code = prompts.code(problem.question, problem.entry_point)
    tests = [prompts.test(problem.question, problem.entry_point, p) for p in (problem.solution, *problem.mutants)]
    rollout = config.rollout
    return len(code) <= rollout.code_prompt_tokens and max(map(len, tests)) <= rollout.test_prompt_tokens


def make_rules(config: Config, longest_test_prompt: int, limits: Limits) -> Rules:
    """How rounds are played; the Test LLM's player takes prompts of up to `longest_test_prompt` tokens."""
    rollout = config.rollout
    return Rules(
        samples=rollout.samples,
        suites=rollout.suites,
        share_programs=rollout.share_programs,
        test_prompt_tokens=longest_test_prompt,
        scoring=Scoring(config.rewards, config.train.update_n),
        limits=limits,
    )


@dataclass(frozen=True)
class Player:
    """A role's sampler and the tokens it takes and gives at most; bound to parameters it is a `Speaker`."""

    sampler: Sampler
    longest_prompt: int
    max_new_tokens: int

    def speak(self, params: Params, temperature: float, top_p: float) -> Speaker:
        """This role, speaking with these parameters."""
        sampling = Sampling(self.max_new_tokens, temperature, top_p)
        return lambda requests: self.sampler.generate(params, requests, sampling)


def make_players(config: Config, policy: Policy, prompts: Prompts, questions: Questions) -> tuple[Player, Player]:
    """The Code LLM's and the Test LLM's player, with caches no longer than these questions need."""
    rollout = config.rollout
    problems = (*questions.train, *questions.heldout)
    code = max(len(prompts.code(p.question, p.entry_point)) for p in problems)
    bare = max(len(prompts.test(p.question, p.entry_point, "")) for p in problems)
    shown = max(
        len(prompts.test(p.question, p.entry_point, program)) for p in problems for program in (p.solution, *p.mutants)
    )
    # A sampled program may take more tokens when it is read back than when it was written: leave it some room.
    # One that needs still more gets no suites.
    test = min(max(shown, bare + 2 * rollout.code_tokens), rollout.test_prompt_tokens)

    def player(groups: int, width: int, prompt: int, response: int, seed: int) -> Player:
        capacity = Capacity(
            slots=groups,
            width=width,
            prompt_buckets=buckets(prompt),
            response_buckets=(-(-response // BLOCK) * BLOCK,),
            block=BLOCK,
            prefill_tokens=rollout.prefill_tokens,
        )
        tokenizer = policy.tokenizer
        sampler = Sampler(
            policy.model, eos_ids=tokenizer.eos_ids, pad_id=tokenizer.pad_id, seed=seed, capacity=capacity
        )
        return Player(sampler, prompt, response)

    seed = config.run.seed
    return (
        player(min(rollout.groups, config.train.questions), rollout.samples, code, rollout.code_tokens, 2 * seed),
        player(rollout.groups, rollout.suites, test, rollout.test_tokens, 2 * seed + 1),
    )


def buckets(longest: int, smallest: int = 128) -> tuple[int, ...]:
    """Powers of two from `smallest` on that are below `longest`, and `longest` rounded up to a multiple of 16.

    Each bucket costs a compilation, so short prompts share one.
    """
    last = -(-longest // 16) * 16
    below = (2**power for power in range(smallest.bit_length() - 1, last.bit_length()))
    return (*(length for length in below if length < last), last)


def make_learner(config: Config, settings: LearnerConfig, policy: Policy, total_steps: int) -> Learner:
    """The learner of one role."""
    return Learner(
        policy.model,
        settings.grpo,
        settings.optimizer,
        settings.packing,
        total_steps=total_steps,
        temperature=config.rollout.temperature,
    )


@dataclass(frozen=True)
class Parts:
    """All that training uses and does not change."""

    config: Config
    policy: Policy
    prompts: Prompts
    questions: Questions
    rules: Rules
    players: tuple[Player, Player]
    code_learner: Learner
    test_learner: Learner
    heldout: HeldOut
    pool: Judge
    total_steps: int

    def table(self, code: Params, test: Params, temperature: float | None = None, top_p: float | None = None) -> Table:
        """Both models at the table, with these parameters; sampled as in training unless told otherwise."""
        rollout = self.config.rollout
        heat = rollout.temperature if temperature is None else temperature
        nucleus = rollout.top_p if top_p is None else top_p
        code_player, test_player = self.players
        return Table(
            code=code_player.speak(code, heat, nucleus),
            test=test_player.speak(test, heat, nucleus),
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
    prompts = make_prompts(config, policy)
    questions = load_questions(config, prompts, pool)
    total_steps = config.train.steps or config.train.epochs * (len(questions.train) // config.train.questions)
    players = make_players(config, policy, prompts, questions)
    return Parts(
        config=config,
        policy=policy,
        prompts=prompts,
        questions=questions,
        rules=make_rules(config, players[1].longest_prompt, judge_limits(config)),
        players=players,
        code_learner=make_learner(config, config.code, policy, total_steps),
        test_learner=make_learner(config, config.test, policy, total_steps),
        heldout=prepare(questions.heldout if config.eval.every else (), pool),
        pool=pool,
        total_steps=total_steps,
    )
