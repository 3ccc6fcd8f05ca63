"""One step of Code-A1 (arXiv 2603.15611), from questions to updated policies.

    questions ──► Code LLM ──► programs ──► Test LLM ──► suites
                                   │                       │
                                   └──────► judge ◄────────┘◄── mistake book
                                              │ verdicts
                            rewards ◄─────────┤──────────► mistake book
                               │ advantages
                  update Code LLM, then Test LLM   (two jitted phases)

`begin` samples programs, samples suites and submits both to the judge; its result is judged and rewarded. `learn`
updates the mistake book and the policies. The compared methods differ in what is played and in which policy learns from
what; who plays which role is in `config.method`. In formulas, each in the file that is named:

    validity    clip(min(kept/K, 1 - invalid/K), 0, 1) of a suite that was asked for K tests       game/rewards.py
    R_T         α·validity + (1 - α)·adversarial, the share of its tests that the program fails,
                beyond its failures in the book                                                    game/rewards.py
    R_C         the mean pass rate on each of the program's suites and on the book                 game/rewards.py
    book        each failure of a valid test adds one to its count on the question's page, and
                each pass of a remembered test takes one away; at zero it is forgotten             game/mistake_book.py
    advantage   (R - mean) / std within a question's programs, or one program's suites             learn/advantages.py
    loss        clipped policy gradient, and the KL divergence from the frozen reference           learn/losses.py

Configuration switches departures from the paper. These are on by default; presets named `MODEL/METHOD_paper` of the
real models have them off (`configs/recipes/paper.yaml`):

- rewards.repeats=value (text is the original's rule): a test with the inputs of another one repeats it.
- reading=commonmark (paper is the original's rule): programs and suites are read from whatever blocks hold them.
- rewards.junk=dropped (invalid is the original's rule): asserts outside of the language of tests cost nothing.
- sandbox.script_seconds=none (10 in the original): each call has its own time, instead of a program and all its tests.
- sandbox.reference_names=false (true in the original): programs and tests do not see the reference's constants.
- optimizer.warmup_from_zero=false (true in the original): the first step's learning rate is not 0.
- eval.limits=ours (paper: the original's): programs are timed by the reference, not by the clock.

And these are off by default:

- rewards.only_right: only tests that state the right answer earn for what they find.
- rewards.test_value: what a suite's tests find of wrong siblings, mutants or branches, in the place of `adversarial`.
- rewards.reference=stand_ins: programs that pass a question's golden tests stand in for its solution.
- rewards.difficulty=any, rewards.passing=all: a suite, or a program, is all right or all wrong.
- rewards.pool_tests: a program is rewarded on the valid tests of all its siblings.
- rewards.advantages: centred (Dr. GRPO), rloo, reinforce++ or maxrl, in place of grpo.
- rollout.share_programs: identical programs of a question share one set of suites.
- train.update_n > 1: the Test LLM learns from the suites of several candidates.
- grpo.loss=cispo, grpo.ratio=sequence (GSPO), grpo.normalizer=constant (Dr. GRPO), grpo.importance_cap and what it
  bounds, grpo.mask_truncated, grpo.entropy_coef, grpo.reference_every, grpo.skip_zero_advantage.
- train.refill: groups in which all succeed or all fail make way for those of further questions.
- data.curriculum: of the next questions a step takes those that a policy succeeds at half of the time.
- train.async_steps=1: a step is drawn before the last one is learned from, and judged meanwhile (one-step off-policy).
- method.white_box, method.mistake_book, method.answer_prediction=false: the paper's ablations.
- lora: adapters over one frozen base.

`configs/recipes/micro_departures.yaml` has those of `micro/a1`, which `micro/a1_paper` does not have.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import jax

from codea1_jax.common.activity import report
from codea1_jax.common.chips import peak_flops
from codea1_jax.config import METHODS
from codea1_jax.game.export import book_metrics, code_groups, round_metrics, test_groups
from codea1_jax.game.replay import replaying
from codea1_jax.game.rollouts import Page, StepRollouts
from codea1_jax.game.round import Game, Pending, begin_round
from codea1_jax.learn import Trajectory, Wait
from codea1_jax.learn.advantages import scaled_over_step
from codea1_jax.models.decoder import Params
from codea1_jax.models.lora import attach
from codea1_jax.training.parts import Training, goodput
from codea1_jax.training.state import State
from data_pipeline import Problem
from data_pipeline.golden import plain_golden_tests


def begin(
    training: Training, state: State, problems: Sequence[Problem], stream: tuple[int, ...] = ()
) -> Pending[StepRollouts]:
    """Samples a step, or replays what was sampled ahead for it, and submits it to the judge.

    stream: by which it is sampled, if not by the step's number.
    """
    game, before, ahead = training.games.game(params(training, state)), training.games.counters(), state.ahead
    if ahead is not None:
        game = replaying(game, ahead)
    pending = BEGIN[training.method.name](game, problems, state.book, stream or (state.step,))
    seconds = pending.seconds if ahead is None else ahead.seconds
    work = training.games.work_since(before) if ahead is None else ahead.work

    def measured(rollouts: StepRollouts) -> StepRollouts:
        return replace(rollouts, seconds={**rollouts.seconds, **seconds}, figures=goodput(work, seconds))

    return replace(pending, seconds=seconds, work=work).map(measured)


def learn(
    training: Training, state: State, rollouts: StepRollouts, wait: Wait = jax.block_until_ready
) -> tuple[State, dict[str, float]]:
    """Updates the mistake book and every policy in turn. The policies of `state` are donated.

    `wait` gets what each micro-batch computes before the next one begins.
    """
    book = book_after(training, state, rollouts)
    policies, seconds, learned = dict(state.policies), dict(rollouts.seconds), {}
    over_step = training.games.config.rewards.advantages == "reinforce++"
    for name, own in rollouts.groups.items():
        groups = scaled_over_step(own) if over_step else own
        learner, started = training.policies.learners[name], time.perf_counter()
        show = partial(report, f"updating {name}", parts="micro-batches")
        policies[name], figures = learner.update(
            policies[name], state.reference, groups, wait, base=state.bases.get(name), show=show
        )
        seconds[f"update_{name}"] = took = time.perf_counter() - started
        peak = peak_flops(training.policies.mesh.devices.flat)
        speed = update_speed(learner.tokens(groups), learner.flops(groups), took, peak)
        learned |= {f"{name}/{figure}": value for figure, value in figures.items()}
        learned |= {f"{figure}/update_{name}": value for figure, value in speed.items()}
    metrics = {
        **_played_metrics(training, rollouts),
        "book/tests": float(sum(map(len, book.values()))),
        "book/questions": float(sum(map(bool, book.values()))),
        **learned,
        **{f"seconds/{stage}": value for stage, value in {**seconds, **rollouts.hidden}.items()},
        **rollouts.figures,
        "seconds/step": sum(seconds.values()),
    }
    return replace(state, step=state.step + 1, policies=policies, book=book), metrics


def update_speed(tokens: int, flops: float, seconds: float, peak: float | None) -> dict[str, float]:
    """`tokens_per_second` of an update; and its `mfu`, where the peak FLOP/s of the devices is known.

    MFU (arXiv 2204.02311, appendix B) counts the FLOPs that a perfect implementation would need too: neither padding
    nor what is computed again. The peak is that of dense bfloat16, whatever is computed with.
    """
    speed = {"tokens_per_second": tokens / seconds}
    return speed if peak is None else speed | {"mfu": flops / (seconds * peak)}


def book_after(training: Training, state: State, rollouts: StepRollouts) -> Mapping[str, Page]:
    """The mistake book with the step's new pages."""
    return {**state.book, **rollouts.pages} if _has_book(training) else state.book


def params(training: Training, state: State) -> dict[str, Params]:
    """Every policy's parameters, by its name; under LoRA its adapted base."""
    lora = training.policies.learning.lora
    return {name: attach(lora[name], state.bases.get(name), policy.params) for name, policy in state.policies.items()}


def _has_book(training: Training) -> bool:
    return training.method.mistake_book and "test" in METHODS[training.method.name].roles


def _played_metrics(training: Training, rollouts: StepRollouts) -> dict[str, float]:
    if not rollouts.questions:
        return {}
    with_tests = "test" in METHODS[training.method.name].roles
    of_book = book_metrics(rollouts.questions) if _has_book(training) else {}
    return round_metrics(rollouts.questions, with_tests=with_tests) | of_book


Begin = Callable[[Game, Sequence[Problem], Mapping[str, Page], tuple[int, ...]], Pending[StepRollouts]]
"""(game, problems, mistake book, random stream) -> what is sampled, and is being judged."""


def _a1(
    game: Game, problems: Sequence[Problem], book: Mapping[str, Page], stream: tuple[int, ...]
) -> Pending[StepRollouts]:
    def grouped(played: StepRollouts) -> StepRollouts:
        return replace(played, groups={"code": code_groups(played.questions), "test": test_groups(played.questions)})

    return begin_round(game, problems, book, stream).map(grouped)


def _self_play(
    game: Game, problems: Sequence[Problem], book: Mapping[str, Page], stream: tuple[int, ...]
) -> Pending[StepRollouts]:
    """Both roles' trajectories of a question in one group, for the one policy: as many updates a step as in a1."""

    def grouped(played: StepRollouts) -> StepRollouts:
        pairs = zip(code_groups(played.questions), test_groups(played.questions), strict=True)
        return replace(played, groups={"code": [[*programs, *suites] for programs, suites in pairs]})

    return begin_round(game, problems, book, stream).map(grouped)


def _golden(
    game: Game, problems: Sequence[Problem], _book: Mapping[str, Page], stream: tuple[int, ...]
) -> Pending[StepRollouts]:
    def grouped(played: StepRollouts) -> StepRollouts:
        return replace(played, groups={"code": code_groups(played.questions)})

    return begin_round(replace(game, test=None), problems, {}, stream).map(grouped)


def _sft(
    game: Game, problems: Sequence[Problem], _book: Mapping[str, Page], stream: tuple[int, ...]
) -> Pending[StepRollouts]:
    """Shown a question and (white box) its reference, the Test LLM must give K golden tests, others each time."""
    groups = []
    for problem in problems:
        golden = plain_golden_tests(problem)
        count = min(game.config.rewards.suite_size, len(golden))
        tests = random.Random(f"{stream} {problem.id}").sample(golden, count)
        shown = problem.solution if game.config.method.white_box else None
        prompt = game.prompts.test(problem, shown)
        groups.append([Trajectory(prompt, game.prompts.suite(problem, tests), advantage=1.0)])
    return Pending((), {}, lambda: StepRollouts(groups={"test": groups}))


BEGIN: Mapping[str, Begin] = {"a1": _a1, "golden": _golden, "self_play": _self_play, "sft": _sft}
