"""The training loop of Code-A1 (arXiv 2603.15611).

    questions ──► Code LLM ──► programs ──► Test LLM ──► suites
                                   │                       │
                                   └──────► judge ◄────────┘◄── mistake book
                                              │ verdicts
                            rewards ◄─────────┤──────────► mistake book
                               │ advantages
                  update Code LLM, then Test LLM   (two jitted phases)

Where a run departs from the paper it is by a configuration value that says so, off by default.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from codea1_jax.assemble import Parts, initial_params
from codea1_jax.evals.heldout import evaluate_code, evaluate_tests
from codea1_jax.game import Page, Round, play_round
from codea1_jax.game.export import code_groups, question_record, round_metrics, test_groups
from codea1_jax.learn import PolicyState
from codea1_jax.models.qwen2 import Params
from codea1_jax.run.interrupts import Interrupted, Interrupts
from codea1_jax.run.rundir import RunDir
from codea1_jax.run.telemetry import Progress
from data_pipeline import Problem
from sandbox import Test

EVAL_STREAM = 2**31 - 1  # no training step has this number


@dataclass(frozen=True)
class State:
    """All that training changes. `step` steps are done; `data` is the loader's place among the questions."""

    step: int
    code: PolicyState
    test: PolicyState
    reference: Params | None
    book: Mapping[str, Page]
    data: Any


def train(parts: Parts, state: State, run: RunDir) -> State:
    """Trains to the last step, logging, evaluating and saving on the way.

    Raises Interrupted, after saving, when the process is asked to stop. Whatever else is raised (SandboxError,
    CheckpointError, FloatingPointError) leaves the last checkpoint good.
    """
    questions = parts.loader()
    questions.set_state(state.data)
    total = parts.total_steps
    with Interrupts() as interrupts, Progress(total, done=state.step) as progress:
        try:
            while True:
                _evaluate_if_due(parts, state, run)
                if state.step == total or _due(state.step, parts.config.checkpoint.every):
                    with interrupts.shield():
                        _save(state, run)
                if state.step == total:
                    return state
                round_ = play(parts, state, next(questions))
                with interrupts.shield():  # what donates the state and what records it is done whole
                    state, metrics = learn(parts, state, round_)
                    state = replace(state, data=questions.get_state())
                    run.log("train", state.step, metrics)
                    run.write_rollouts(state.step, records(parts, state.step, round_))
                progress.update(state.step, metrics)
        except Interrupted:
            _save(state, run)
            raise


def play(parts: Parts, state: State, problems: Sequence[Problem]) -> Round:
    """Samples programs and suites, judges them, rewards both models."""
    table = parts.table(state.code.params, state.test.params)
    return play_round(table, problems, state.book, (state.step,), parts.rules)


def learn(parts: Parts, state: State, round_: Round) -> tuple[State, dict[str, float]]:
    """Updates the mistake book, the Code LLM, then the Test LLM. The policies of `state` are donated."""
    started = time.perf_counter()
    book = {**state.book, **{q.problem.id: q.page_after for q in round_.questions}}
    code_groups_, test_groups_ = code_groups(round_.questions), test_groups(round_.questions)
    code, code_metrics = parts.code_learner.update(state.code, state.reference, code_groups_)
    code_updated = time.perf_counter()
    test, test_metrics = parts.test_learner.update(state.test, state.reference, test_groups_)
    seconds = {
        **round_.seconds,
        "update_code": code_updated - started,
        "update_tests": time.perf_counter() - code_updated,
    }
    metrics = {
        **round_metrics(round_.questions),
        "book/tests": float(sum(map(len, book.values()))),
        "book/questions": float(sum(map(bool, book.values()))),
        **{f"code/{name}": value for name, value in code_metrics.items()},
        **{f"test/{name}": value for name, value in test_metrics.items()},
        **{f"seconds/{name}": value for name, value in seconds.items()},
        "seconds/step": sum(seconds.values()),
    }
    return replace(state, step=state.step + 1, code=code, test=test, book=book), metrics


def records(parts: Parts, step: int, round_: Round) -> list[dict[str, Any]]:
    """The round as one can read it, a record per question."""
    return [question_record(step, question, parts.policy.tokenizer.decode) for question in round_.questions]


def evaluate(parts: Parts, state: State) -> dict[str, float]:
    """Both models on held-out questions, in percent. The samples are the same streams at every step."""
    settings = parts.config.eval
    started = time.perf_counter()
    table = parts.table(state.code.params, state.test.params, settings.temperature, settings.top_p)
    code = evaluate_code(table, parts.heldout, settings.samples, stream=(EVAL_STREAM, 0))
    tests = evaluate_tests(
        table, parts.heldout, settings.suites, parts.config.rewards.suite_size, stream=(EVAL_STREAM, 1)
    )
    return {**code, **tests, "seconds/eval": time.perf_counter() - started}


def _evaluate_if_due(parts: Parts, state: State, run: RunDir) -> None:
    every = parts.config.eval.every
    due = every and (state.step in (0, parts.total_steps) or _due(state.step, every))
    # A run that was stopped between a step and its evaluation finds the evaluation still to be done.
    if due and parts.heldout.problems and not run.has_logged("eval", state.step):
        run.log("eval", state.step, evaluate(parts, state))


def _due(step: int, every: int) -> bool:
    return step > 0 and step % every == 0


def _save(state: State, run: RunDir) -> None:
    if state.step > 0 and not run.has_saved(state.step):
        run.save(state.step, *pack_state(state))


def pack_state(state: State) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state as arrays and a JSON document."""
    arrays = {"code": state.code, "test": state.test}
    if state.reference is not None:
        arrays["reference"] = state.reference
    book = {
        question: [[test.call, test.expected, count] for test, count in page.items()]
        for question, page in state.book.items()
    }
    return arrays, {"step": state.step, "book": book, "data": state.data}


def unpack_state(arrays: Mapping[str, Any], document: Mapping[str, Any]) -> State:
    """The inverse of `pack_state`."""
    book = {
        question: {Test(call, expected): count for call, expected, count in page}
        for question, page in document["book"].items()
    }
    return State(document["step"], arrays["code"], arrays["test"], arrays.get("reference"), book, document["data"])


def start(parts: Parts) -> State:
    """The state before the first step: both policies from the same weights, which are also the frozen reference."""
    params = initial_params(parts.config, parts.policy)
    needed = max(parts.config.code.grpo.kl_coef, parts.config.test.grpo.kl_coef) > 0
    return State(
        step=0,
        code=parts.code_learner.init(params),
        test=parts.test_learner.init(params),
        reference=params if needed else None,
        book={},
        data=parts.loader().get_state(),
    )


def resume(parts: Parts, run: RunDir) -> State:
    """The state of the run's last checkpoint. Raises CheckpointError if it cannot be read."""
    arrays, _ = pack_state(start(parts))
    return unpack_state(*run.restore(arrays))
