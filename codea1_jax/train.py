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
from dataclasses import replace
from typing import Any

import jax

from codea1_jax.assemble import Parts, base_params, initial_params, own_start
from codea1_jax.evals.code import benchmark_figures, evaluate_benchmark
from codea1_jax.evals.heldout import code_figures, evaluate_code, evaluate_tests, suite_figures
from codea1_jax.game.export import question_record, round_metrics
from codea1_jax.learn import Wait, frozen
from codea1_jax.methods import Played
from codea1_jax.models.lora import attach
from codea1_jax.models.qwen2 import Params
from codea1_jax.models.sharding import abstract_sharded
from codea1_jax.run.agreement import agreement
from codea1_jax.run.config import ConfigError
from codea1_jax.run.errors import Interrupted
from codea1_jax.run.fingerprint import digest
from codea1_jax.run.interrupts import Interrupts
from codea1_jax.run.offload import in_host_memory
from codea1_jax.run.rundir import RunDir
from codea1_jax.run.telemetry import Progress
from codea1_jax.state import State, pack_state, unpack_state
from data_pipeline import Problem

EVAL_STREAM = 2**31 - 1  # no training step has this number


def train(parts: Parts, state: State, run: RunDir) -> State:
    """Trains to the last step, logging, evaluating and saving on the way.

    Raises Interrupted, after saving, when the process is asked to stop. Whatever else is raised (SandboxError,
    CheckpointError, FloatingPointError) leaves the last checkpoint good.
    """
    questions = parts.loader()
    questions.set_state(state.data)
    total = parts.total_steps
    with (
        Interrupts(agreement()) as interrupts,
        Progress(total, done=state.step) as progress,
    ):
        try:
            while True:
                _evaluate_if_due(parts, state, run)
                if _save_due(parts, state, run):
                    with interrupts.shield():
                        _save(state, run)
                if state.step == total:
                    return state
                played = play(parts, state, next(questions))
                run.check_saving()
                with interrupts.shield():  # what donates the state and what records it is done whole
                    state, metrics = learn(parts, state, played, _droppable(state, run, interrupts))
                    state = replace(state, data=questions.get_state())
                    run.log("train", state.step, metrics)
                    run.write_rollouts(state.step, records(parts, state.step, played))
                progress.update(state.step, metrics)
        except Interrupted:
            with interrupts.shield():
                _save(state, run)
                run.finish_saving()
            raise


def play(parts: Parts, state: State, problems: Sequence[Problem]) -> Played:
    """What the method plays in a step: in Code-A1, both models sampled, judged and rewarded."""
    return parts.method.play(parts.table(params(parts, state)), problems, state.book, (state.step,), parts.rules)


def learn(
    parts: Parts, state: State, played: Played, wait: Wait = jax.block_until_ready
) -> tuple[State, dict[str, float]]:
    """Updates the mistake book and every policy in turn. The policies of `state` are donated.

    `wait` gets what each micro-batch computes before the next one begins.
    """
    policies, metrics, speeds, seconds = dict(state.policies), {}, {}, dict(played.seconds)
    for name, lessons in played.lessons.items():
        started = time.perf_counter()
        policies[name], figures = parts.learners[name].update(policies[name], state.reference, lessons, wait)
        seconds[f"update_{name}"] = time.perf_counter() - started
        speed = parts.update_speed(name, lessons, seconds[f"update_{name}"])
        speeds |= {f"{figure}/update_{name}": value for figure, value in speed.items()}
        metrics |= {f"{name}/{figure}": value for figure, value in figures.items()}
    book = {**state.book, **played.pages} if parts.config.method.mistake_book else state.book
    metrics = {
        **(round_metrics(played.questions) if played.questions else {}),
        "book/tests": float(sum(map(len, book.values()))),
        "book/questions": float(sum(map(bool, book.values()))),
        **metrics,
        **speeds,
        **{f"seconds/{name}": value for name, value in seconds.items()},
        "seconds/judge_hidden": played.judge_hidden,
        "seconds/step": sum(seconds.values()),
    }
    return replace(state, step=state.step + 1, policies=policies, book=book), metrics


def params(parts: Parts, state: State) -> dict[str, Params]:
    """Every policy's parameters, by its name; under LoRA the base's, adapted."""
    lora = parts.config.lora
    return {name: attach(lora, state.reference, policy.params) for name, policy in state.policies.items()}


def records(parts: Parts, step: int, played: Played) -> list[dict[str, Any]]:
    """What was played as one can read it, a record per question."""
    return [question_record(step, question, parts.policy.tokenizer.decode) for question in played.questions]


def evaluate(parts: Parts, state: State) -> dict[str, float]:
    """The trained models on held-out questions and benchmarks, in percent, from the same streams at every step."""
    settings = parts.config.eval
    started = time.perf_counter()
    table = parts.table(params(parts, state), settings.temperature, settings.top_p)
    figures: dict[str, float] = {}
    if "code" in parts.method.roles and parts.benchmark.problems:
        figures |= evaluate_benchmark(table, parts.benchmark, settings.samples, stream=(EVAL_STREAM, 2))
    if "code" in parts.method.roles and parts.heldout.problems:
        figures |= evaluate_code(table, parts.heldout, settings.samples, stream=(EVAL_STREAM, 0))
    if "test" in parts.method.roles and parts.heldout.problems:
        suite_size = parts.config.rewards.suite_size
        figures |= evaluate_tests(table, parts.heldout, settings.suites, suite_size, stream=(EVAL_STREAM, 1))
    return {**figures, "seconds/eval": time.perf_counter() - started}


def check_best_metric(parts: Parts) -> None:
    """Raises ConfigError if the best checkpoints are to be told by a figure that `evaluate` does not give."""
    settings, samples = parts.config.checkpoint, parts.config.eval.samples
    names: tuple[str, ...] = ()
    if "code" in parts.method.roles:
        names += benchmark_figures(parts.benchmark, samples)
        names += code_figures(samples) if parts.heldout.problems else ()
    if "test" in parts.method.roles and parts.heldout.problems:
        names += suite_figures(parts.heldout)
    if settings.keep_best and settings.best_metric not in names:
        raise ConfigError(
            f"checkpoint.best_metric: no evaluation of this run gives {settings.best_metric}; "
            f"it gives {', '.join(names) or 'nothing'}"
        )


def _droppable(state: State, run: RunDir, interrupts: Interrupts) -> Wait:
    """Waits in an update of `state`, which a signal may end as long as the step's beginning is whole here or saved."""
    saved = run.has_saved(state.step)

    def wait(arrays: Any) -> None:
        if saved or not any(array.is_deleted() for array in jax.tree.leaves(state.policies)):
            interrupts.wait(arrays)
        else:
            jax.block_until_ready(arrays)

    return wait


def _evaluate_if_due(parts: Parts, state: State, run: RunDir) -> None:
    every = parts.config.eval.every
    due = every and (state.step in (0, parts.total_steps) or _due(state.step, every))
    # A run that was stopped between a step and its evaluation finds the evaluation still to be done.
    questions = parts.heldout.problems or parts.benchmark.problems
    if due and questions and not run.has_logged("eval", state.step):
        run.log("eval", state.step, evaluate(parts, state))


def _save_due(parts: Parts, state: State, run: RunDir) -> bool:
    settings = parts.config.checkpoint
    judged = settings.keep_best > 0 and run.has_logged("eval", state.step)
    return state.step == parts.total_steps or _due(state.step, settings.every) or judged


def _due(step: int, every: int) -> bool:
    return step > 0 and step % every == 0


def _save(state: State, run: RunDir) -> None:
    if not run.has_saved(state.step):
        run.save(state.step, *pack_state(state))


def start(parts: Parts) -> State:
    """The state before the first step: every policy from the same weights, which are also the frozen reference.

    One that starts elsewhere has its own reference.
    """
    params = initial_params(parts.config, parts.policy, parts.mesh)
    policies = {
        name: learner.init(own_start(parts.config, name, parts.policy, parts.mesh) or params)
        for name, learner in parts.learners.items()
    }
    if parts.config.lora is not None:
        return replace(_first_state(parts, policies, params), base=digest(params))
    return _first_state(parts, policies, frozen(params, parts.policy.model.dtype) if parts.needs_reference else None)


def resume(parts: Parts, run: RunDir) -> State:
    """The state of the run's last checkpoint, on this run's mesh.

    Raises CheckpointError if it cannot be read, ConfigError if LoRA's base is another than the run began with.
    """
    model, lora = parts.policy.model, parts.config.lora
    params = abstract_sharded(model, parts.mesh)
    policies = {name: learner.abstract(params) for name, learner in parts.learners.items()}
    saved = parts.needs_reference and lora is None
    reference = abstract_sharded(model.clone(param_dtype=model.dtype), parts.mesh) if saved else None
    like, _ = pack_state(_first_state(parts, policies, reference))
    state = unpack_state(*run.restore(like))
    return (
        state
        if lora is None
        else replace(state, reference=base_params(parts.config, parts.policy, parts.mesh, state.base))
    )


def _first_state(parts: Parts, policies: Mapping[str, Any], reference: Params | None) -> State:
    if parts.config.offload.reference:
        reference = in_host_memory(reference)
    return State(step=0, policies=policies, reference=reference, book={}, data=parts.loader().get_state())
