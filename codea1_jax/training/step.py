"""One step of Code-A1 (arXiv 2603.15611), from questions to updated policies.

    questions ──► Code LLM ──► programs ──► Test LLM ──► suites
                                   │                       │
                                   └──────► judge ◄────────┘◄── mistake book
                                              │ verdicts
                            rewards ◄─────────┤──────────► mistake book
                               │ advantages
                  update Code LLM, then Test LLM   (two jitted phases)

`play` samples programs and suites, has them judged and rewards both models; `learn` updates the mistake book and the
policies. In formulas, each in the file that is named:

    validity    clip(min(kept/K, 1 - invalid/K), 0, 1) of a suite that was asked for K tests       game/rewards.py
    R_T         α·validity + (1 - α)·adversarial, the share of its tests that the program fails,
                beyond its failures in the book                                                    game/rewards.py
    R_C         the mean pass rate on each of the program's suites and on the book                 game/rewards.py
    book        each failure of a valid test adds one to its count on the question's page, and
                each pass of a remembered test takes one away; at zero it is forgotten             game/mistake_book.py
    advantage   (R - mean) / std within a question's programs, or one program's suites             learn/advantages.py
    loss        clipped policy gradient, and the KL divergence from the frozen reference           learn/losses.py

The compared methods, below, differ in what is played and in which policy learns from what. docs/method.md lists the
options ("Options of a step"), and those in which the defaults depart from the original ("The original's choices").
"""

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
from codea1_jax.game.rollouts import Page, StepRollouts
from codea1_jax.game.round import Game, play_round
from codea1_jax.learn import Trajectory, Wait
from codea1_jax.models.decoder import Params
from codea1_jax.models.lora import attach
from codea1_jax.training.parts import Training
from codea1_jax.training.state import State
from data_pipeline import Problem
from data_pipeline.golden import plain_golden_tests


def play(training: Training, state: State, problems: Sequence[Problem], stream: tuple[int, ...] = ()) -> StepRollouts:
    """Samples programs and suites for these questions, judges them and rewards both models.

    stream: of random numbers, if not the step's number. Raises SandboxError if the judge fails.
    """
    game, before = training.games.game(params(training, state)), training.games.counters()
    rollouts = PLAY[training.config.method.name](game, problems, state.book, stream or (state.step,))
    return replace(rollouts, figures=training.games.goodput(before, rollouts.seconds))


def learn(
    training: Training, state: State, rollouts: StepRollouts, wait: Wait = jax.block_until_ready
) -> tuple[State, dict[str, float]]:
    """Updates the mistake book and every policy in turn. The policies of `state` are donated.

    `wait` gets what each micro-batch computes before the next one begins.
    """
    book = book_after(training, state, rollouts)
    policies, seconds, learned = dict(state.policies), dict(rollouts.seconds), {}
    for name, groups in rollouts.groups.items():
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
    return {**state.book, **rollouts.pages} if _has_book(training) else state.book


def params(training: Training, state: State) -> dict[str, Params]:
    """Every policy's parameters, by its name; under LoRA its adapted base."""
    lora = training.config.lora
    return {name: attach(lora, state.bases.get(name), own.params) for name, own in state.policies.items()}


def _has_book(training: Training) -> bool:
    return training.config.method.mistake_book and "test" in METHODS[training.config.method.name].roles


def _played_metrics(training: Training, rollouts: StepRollouts) -> dict[str, float]:
    if not rollouts.questions:
        return {}
    with_tests = "test" in METHODS[training.config.method.name].roles
    of_book = book_metrics(rollouts.questions) if _has_book(training) else {}
    return round_metrics(rollouts.questions, with_tests=with_tests) | of_book


PlayRound = Callable[[Game, Sequence[Problem], Mapping[str, Page], tuple[int, ...]], StepRollouts]
"""(game, problems, mistake book, random stream) -> what was played, and what each policy learns from."""


def _a1(game: Game, problems: Sequence[Problem], book: Mapping[str, Page], stream: tuple[int, ...]) -> StepRollouts:
    played = play_round(game, problems, book, stream)
    return replace(played, groups={"code": code_groups(played.questions), "test": test_groups(played.questions)})


def _self_play(
    game: Game, problems: Sequence[Problem], book: Mapping[str, Page], stream: tuple[int, ...]
) -> StepRollouts:
    """Both roles' trajectories of a question in one group, for the one policy: as many updates a step as in a1."""
    played = play_round(game, problems, book, stream)
    pairs = zip(code_groups(played.questions), test_groups(played.questions), strict=True)
    return replace(played, groups={"code": [[*programs, *suites] for programs, suites in pairs]})


def _golden(
    game: Game, problems: Sequence[Problem], _book: Mapping[str, Page], stream: tuple[int, ...]
) -> StepRollouts:
    played = play_round(replace(game, test=None), problems, {}, stream)
    return replace(played, groups={"code": code_groups(played.questions)})


def _sft(game: Game, problems: Sequence[Problem], _book: Mapping[str, Page], stream: tuple[int, ...]) -> StepRollouts:
    """Shown a question and (white box) its reference, the Test LLM must give K golden tests, others each time."""
    groups = []
    for problem in problems:
        golden = plain_golden_tests(problem)
        count = min(game.config.rewards.suite_size, len(golden))
        tests = random.Random(f"{stream} {problem.id}").sample(golden, count)
        shown = problem.solution if game.config.method.white_box else None
        prompt = game.prompts.test(problem, shown)
        groups.append([Trajectory(prompt, game.prompts.suite(problem, tests), advantage=1.0)])
    return StepRollouts(groups={"test": groups})


PLAY: Mapping[str, PlayRound] = {"a1": _a1, "golden": _golden, "self_play": _self_play, "sft": _sft}
