from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from jax.sharding import Mesh

from codea1_jax.config import METHODS, Config, Reading, Role, RolloutConfig
from codea1_jax.game.players import PolicyPlayer
from codea1_jax.game.prompts import Prompts
from codea1_jax.models.decoder import Params
from codea1_jax.models.policy import Policy
from codea1_jax.models.sharding import batch_shards
from codea1_jax.rollout import Capacity, Sampler, Sampling
from codea1_jax.rollout.capacity import capacity_of
from codea1_jax.runtime.layout import REPLICA
from codea1_jax.training.questions import Questions


@dataclass(frozen=True)
class RoleSampler:
    sampler: Sampler
    prompts: Prompts
    policy: Policy
    longest_prompt: int
    sampling: Sampling
    reading: Reading

    @property
    def longest_example(self) -> int:
        """Places of a longest prompt with a longest response, whose last token is only predicted."""
        return self.longest_prompt + self.sampling.max_new_tokens - 1

    def player(self, params: Params, sampling: Sampling) -> PolicyPlayer:
        return PolicyPlayer(
            lambda requests: self.sampler.generate(params, requests, sampling),
            self.prompts,
            self.policy.tokenizer.decode,
            self.longest_prompt,
            self.reading,
        )


def make_role_samplers(
    config: Config, policies: Mapping[Role, Policy], prompts: Mapping[Role, Prompts], questions: Questions, mesh: Mesh
) -> dict[Role, RoleSampler]:
    """The Code LLM's and the Test LLM's sampler, with caches no longer than these questions need."""
    rollout, asked = config.rollout, prompts["test"]
    problems = (*questions.train, *questions.heldout)
    code = max(len(prompts["code"].code(p)) for p in (*problems, *questions.benchmark))
    bare = max(len(asked.test(p, "")) for p in problems)
    shown = max(len(asked.test(p, program)) for p in problems for program in (p.solution, *p.mutants))
    # A sampled program may take more tokens when it is read back than when it was written: leave it some room.
    # One that needs still more gets no suites.
    test = min(max(shown, bare + 2 * rollout.code_tokens), rollout.test_prompt_tokens)

    def sampler(role: Role, requests: int, width: int, prompt: int, response: int, usual: int = 0) -> RoleSampler:
        shards, replicas = batch_shards(mesh), mesh.shape[REPLICA]
        capacity = capacity_of(rollout, shards, requests, width, prompt, response, replicas=replicas)
        if 0 < 2 * usual <= prompt:  # few programs are longer than those that are known
            capacity = replace(capacity, prompt_buckets=(usual, capacity.prompt_buckets[-1]))
        samples, seed = ("programs", 2 * config.run.seed) if role == "code" else ("suites", 2 * config.run.seed + 1)
        made = make_sampler(rollout, policies[role], seed, capacity, mesh, samples)
        sampling = Sampling(response, *config.sampling_of(METHODS[config.method.name].roles.get(role, role)))
        return RoleSampler(made, prompts[role], policies[role], prompt, sampling, config.reading)

    programs = config.train.questions * rollout.samples
    return {
        "code": sampler("code", config.train.questions, rollout.samples, code, rollout.code_tokens),
        "test": sampler("test", programs, rollout.suites, test, rollout.test_tokens, min(shown, test)),
    }


def make_sampler(
    rollout: RolloutConfig, policy: Policy, seed: int, capacity: Capacity, mesh: Mesh, samples: str = "samples"
) -> Sampler:
    settings: dict[str, Any] = {"seed": seed, "capacity": capacity, "mesh": mesh, "samples": samples}
    if rollout.engine == "jetstream":
        from codea1_jax.rollout.jetstream.engine import JetStreamSampler  # noqa: PLC0415  an extra

        return JetStreamSampler(policy.model, policy.tokenizer, **settings)
    return Sampler(policy.model, eos_ids=policy.tokenizer.eos_ids, pad_id=policy.tokenizer.pad_id, **settings)
