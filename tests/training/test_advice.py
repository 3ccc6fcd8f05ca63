"""What a run that cannot learn, or a step that taught nothing, is told: each case once, by what it is."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from capacities import for_slots
from judged_group import RIGHT, played

from codea1_jax.config import Config, GRPOConfig, LoRAConfig, OptimizerConfig, PackingConfig, RolloutConfig, load
from codea1_jax.game.rollouts import StepRollouts
from codea1_jax.learn import GRPO, Learner, Trajectory
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Transformer, init_params
from codea1_jax.models.lora import attach, merge
from codea1_jax.rollout import Completion, Request, Sampler, Sampling
from codea1_jax.training.advice import mismatch_advice, schedule_advice, step_advice
from sandbox import SandboxPool

WRONG = "def f(x, y=0):\n    return [0, 0]"


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(1) as pool:
        yield pool


def advice(preset: str, *overrides: str, trained: int, heldout: int = 0) -> list[str]:
    return list(schedule_advice(load(Config, preset, overrides), trained, heldout))


def test_a_thousand_questions_on_one_card_are_too_few_for_the_papers_batch():
    steps, held = advice("1.5b/a1_h100x1", trained=1000)
    assert "train.questions=256 a step and train.epochs=3 make 9 steps" in steps and "set train.questions=150" in steps
    assert held.startswith("no question is held out, so nothing shows whether the Test LLM improves")
    better = ["train.questions=32", "data.heldout_share=0.1"]
    assert advice("1.5b/a1_h100x1", *better, trained=900, heldout=100) == []


def test_the_papers_own_runs_and_the_demo_have_nothing_to_change_but_what_the_paper_holds_out():
    assert advice("micro/a1", trained=256, heldout=64) == []
    assert advice("1.5b/golden", trained=9_688) == []  # no Test LLM is trained
    assert len(advice("1.5b/a1_paper", trained=9_688)) == 1


def test_a_run_without_evaluations_or_with_few_is_told_so():
    (nothing,) = advice("micro/a1", "eval.every=0", trained=256, heldout=64)
    assert nothing.startswith("nothing is evaluated")
    (nothing,) = advice("micro/a1", trained=256)
    assert nothing.startswith("nothing is evaluated")
    (few,) = advice("micro/a1", "eval.every=40", "train.steps=50", trained=256, heldout=64)
    assert few == "eval.every=40 of 50 steps gives 3 points of a curve: set eval.every=5"
    assert advice("micro/a1", "train.steps=0", trained=256) == []


def lessons(pool: SandboxPool, programs: Sequence[str], suites: Sequence[str], *, finished: bool = True) -> list[str]:
    """The advice on a step of one group; a response's tokens do not matter, but whether they have an end."""
    question = played(pool, programs, [suites] * len(programs))

    def ended(each):
        return replace(each, response=replace(each.response, completion=Completion((1,), (-1.0,), finished)))

    told = tuple(
        replace(ended(program), suites=tuple(map(ended, program.suites)), program=program.program * finished)
        for program in question.programs
    )
    question = replace(question, programs=told)
    groups = {
        "code": [[Trajectory((1,), (2,), p.advantage) for p in told]],
        "test": [[Trajectory((1,), (2,), s.advantage) for p in told for s in p.suites if s.trained_on]],
    }
    return list(step_advice(StepRollouts((question,), groups=groups), RolloutConfig()))


VALID, INVALID, RAISES = "assert f(1) == [1, 1]\nassert f(2) == [2, 2]", "assert f(1) == [5, 5]", "assert f('a') == 1"


@pytest.mark.parametrize(
    ("programs", "suites", "code", "test"),
    [
        ([RIGHT, RIGHT], [VALID, VALID], "every program passed every test", "the suites against each program earned"),
        ([WRONG, WRONG], [VALID, VALID], "no program passed a test", "the suites against each program earned"),
        ([RIGHT, WRONG], [INVALID, INVALID], None, "no test states the right value"),
        (
            [RIGHT, WRONG],
            [RAISES, RAISES],
            "no suite had a test that the reference answers",
            "no test states the right value",
        ),
        (["", ""], ["", ""], "in no response a program could be read", "in no response a test could be read"),
        (["import nothing_of_it", "x = f("], [VALID, VALID], "no program runs", None),
        ([RIGHT, WRONG], [VALID, INVALID], None, None),
    ],
)
def test_a_step_that_taught_nothing_says_why(pool, programs, suites, code, test):
    told = dict(line.removeprefix("this step taught ").split(" nothing: ") for line in lessons(pool, programs, suites))
    assert told.get("code", "").startswith(code or "") and ("code" in told) == (code is not None)
    if test is not None:
        assert told["test"].startswith(test)


def test_responses_that_are_all_cut_off_name_the_length_to_raise(pool):
    told = lessons(pool, ["", ""], ["", ""], finished=False)
    assert any("all responses were cut off at 4096 tokens; raise rollout.code_tokens" in line for line in told)


# --- a policy that is not sampled as it is learned from ------------------------------------------------

MODEL = Transformer(Architecture(12, 16, 32, 1, 2, 1, 8, tie_embeddings=False))
CAPACITY = for_slots(4, 4, (8,), (8,), block=8, prefill_tokens=32)
LORA = LoRAConfig(rank=2)


class Trained:
    """Steps of a tiny policy, at each of which `fault` may change what its sampler gets."""

    def __init__(self, lora: LoRAConfig | None = None) -> None:
        tuned = {"learning_rate": 2e-2, "warmup_steps": 0}
        packing = PackingConfig(row_length=64, micro_batch_tokens=512)
        objective = GRPO(GRPOConfig(kl_coef=0.0))
        self.learner = Learner(MODEL, objective, OptimizerConfig(**tuned), packing, total_steps=9, lora=lora)
        self.sampler = Sampler(MODEL, eos_ids=(1,), pad_id=0, seed=0, capacity=CAPACITY)
        self.lora, self.base = lora, init_params(MODEL, jax.random.key(0))

    def advice(self, fault: str = "") -> list[list[str]]:
        """The advice of two steps."""
        state, given, before, told = self.learner.init(self.base), (), self.base, []
        for step in range(2):
            now = jax.tree.map(jnp.copy, state.params)
            whole = merge(attach(self.lora, self.base, now)) if self.lora else now
            params = {"stale": before, "adapters": self.base}.get(fault, whole)
            given = (3,) if fault == "token" else ()
            requests = [Request((*given, question), (step, question), 4) for question in (2, 4, 5, 6)]
            sampling = Sampling(max_new_tokens=4, temperature=0.6 if fault == "temperature" else 1.0)
            groups = [
                [
                    Trajectory(requests[i].prompt[-1:], c.tokens, (-1.0) ** k, logprobs=c.logprobs)
                    for k, c in enumerate(of)
                ]
                for i, of in self.sampler.generate(params, requests, sampling)
            ]
            state, metrics = self.learner.update(state, None, groups, base=self.base if self.lora else None)
            told.append(list(mismatch_advice(load(Config, "micro/a1"), {f"test/{k}": v for k, v in metrics.items()})))
            before = whole
        return told


@pytest.fixture(scope="module")
def trained() -> Trained:
    return Trained()


def test_a_policy_that_is_sampled_as_it_is_learned_from_is_no_warning(trained):
    assert trained.advice() == Trained(LORA).advice() == [[], []]


@pytest.mark.parametrize(("fault", "first"), [("stale", 1), ("temperature", 0), ("token", 0)])
def test_a_sampler_of_older_weights_another_temperature_or_other_tokens_is_a_warning(trained, fault, first):
    told = trained.advice(fault)
    assert [len(each) for each in told] == [1 - first, 1]
    assert told[1][0].startswith("test is not sampled as it is learned from: a token's log-probability differs by ")


def test_adapters_that_the_sampler_lacks_are_a_warning_once_they_have_learned(trained):
    assert [len(each) for each in Trained(LORA).advice("adapters")] == [0, 1]
