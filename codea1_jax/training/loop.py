"""The training loop: steps, and between them evaluations and saves; a signal ends it after saving."""

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import chain
from typing import Any

import jax

from codea1_jax.common.console import TrainingProgress
from codea1_jax.common.errors import Interrupted
from codea1_jax.evals.during_training import EVAL_STREAM, HELDOUT_LOGPROB
from codea1_jax.game.export import question_record
from codea1_jax.game.rollouts import StepRollouts
from codea1_jax.learn import Wait
from codea1_jax.models.ahead import wait_for_all
from codea1_jax.models.compiled import newly_compiled
from codea1_jax.run.rundir import PROFILE_FOLDER, RunDir
from codea1_jax.run.telemetry import rollout_lines
from codea1_jax.runtime.interrupts import Interrupts
from codea1_jax.training.advice import compiling_advice, mismatch_advice, step_advice
from codea1_jax.training.draw import play_step
from codea1_jax.training.parts import Training
from codea1_jax.training.state import State, pack_state
from codea1_jax.training.step import PLAY, learn, params
from sandbox import in_thread

logger = logging.getLogger(__name__)


def train(training: Training, state: State, run: RunDir) -> State:
    """Trains to the last step, logging, evaluating and saving on the way.

    Raises Interrupted, after saving, when the process is asked to stop. Whatever else is raised (SandboxError,
    CheckpointError, FloatingPointError) leaves the last checkpoint good.
    """
    questions = training.loader()
    questions.set_state(state.data)
    total, first = training.total_steps, state.step + 1
    with Interrupts() as interrupts, TrainingProgress(total, done=state.step, shown=run.writes) as progress:
        try:
            while True:
                _evaluate_if_due(training, state, run)
                if _save_due(training, state, run):
                    with interrupts.shield():
                        _save(state, run)
                interrupts.check()
                if state.step == total:
                    return state
                with _profiled(training, state, run):
                    rollouts = play_step(training, state, questions)
                    run.checkpoints.check()
                    data = questions.get_state()
                    with interrupts.shield():  # from where the state is donated until there is a new one, recorded
                        state, metrics = _learn_and_record(training, state, rollouts, run, interrupts, data)
                if run.writes:
                    is_first = state.step == first
                    for line in chain(
                        step_advice(rollouts, training.config.rollout),
                        mismatch_advice(training.config, metrics),
                        () if is_first else compiling_advice(metrics),
                    ):
                        logger.warning("step %d: %s", state.step, line)
                progress.update(state.step, metrics)
        except Interrupted as asked:
            logger.info("%s: saving step %d", asked, state.step)
            with interrupts.shield():
                _save(state, run)
                run.checkpoints.wait()
            raise


def _learn_and_record(
    training: Training, state: State, rollouts: StepRollouts, run: RunDir, interrupts: Interrupts, data: Any
) -> tuple[State, dict[str, float]]:
    """As `learn`; `data` is the loader's place when the step is done."""
    # Made while the devices learn; written when the step has ended, because one that is dropped leaves no record.
    step = state.step + 1
    lines = in_thread(lambda: rollout_lines(records(training, step, rollouts)) if run.writes else "", "records")
    state, metrics = learn(training, state, rollouts, _droppable(state, run, interrupts))
    wait_for_all()  # else what only a save needs is compiled during a later step
    state, metrics = replace(state, data=data), metrics | newly_compiled()
    run.log("train", state.step, metrics)
    run.write_rollouts(state.step, lines.result())
    return state, metrics


def _profiled(training: Training, state: State, run: RunDir) -> AbstractContextManager[object]:
    if state.step + 1 != training.config.train.profile:
        return nullcontext()
    logger.info("step %d is profiled: %s", state.step + 1, run.path / PROFILE_FOLDER)
    return jax.profiler.trace(run.path / PROFILE_FOLDER)


def records(training: Training, step: int, rollouts: StepRollouts) -> list[dict[str, Any]]:
    decode = {role: sampler.policy.tokenizer.decode for role, sampler in training.games.samplers.items()}
    return [question_record(step, question, decode) for question in rollouts.questions]


def evaluate(training: Training, state: State) -> dict[str, float]:
    """The trained models on held-out questions and benchmarks, in percent; `HELDOUT_LOGPROB` of a supervised one."""
    evaluation, policies = training.evaluation, params(training, state)
    sampling = {"temperature": evaluation.config.temperature, "top_p": evaluation.config.top_p}
    game = training.games.game(policies, **sampling)
    metrics = evaluation.metrics(game, is_last=state.step >= training.total_steps)
    if evaluation.supervised and evaluation.tested:
        shown = PLAY[training.config.method.name](game, evaluation.tested, {}, (EVAL_STREAM, 3))
        ((name, groups),) = shown.groups.items()
        metrics[HELDOUT_LOGPROB] = training.policies.learners[name].mean_logprob(policies[name], groups)
    return metrics


def _droppable(state: State, run: RunDir, interrupts: Interrupts) -> Wait:
    """Waits in an update of `state`, which a signal may end as long as the step's beginning is whole here or saved."""
    saved = state.step in run.checkpoints.steps()

    def wait(arrays: Any) -> None:
        if saved or not any(array.is_deleted() for array in jax.tree.leaves(state.policies)):
            interrupts.wait(arrays)
        else:
            jax.block_until_ready(arrays)

    return wait


def _evaluate_if_due(training: Training, state: State, run: RunDir) -> None:
    every = training.evaluation.config.every
    due = every and (state.step in (0, training.total_steps) or _due(state.step, every))
    # A run that was stopped between a step and its evaluation finds the evaluation still to be done.
    if due and training.evaluation.has_questions and not run.has_logged("eval", state.step):
        logger.info("evaluating after step %d", state.step)
        run.log("eval", state.step, evaluate(training, state))


def _save_due(training: Training, state: State, run: RunDir) -> bool:
    settings = training.config.checkpoint
    kept = settings.keep_every > 0 and _due(state.step, settings.keep_every)
    return state.step == training.total_steps or _due(state.step, settings.every) or kept


def _due(step: int, every: int) -> bool:
    return step > 0 and step % every == 0


def _save(state: State, run: RunDir) -> None:
    if state.step not in run.checkpoints.steps():
        run.save(state.step, *pack_state(state))
