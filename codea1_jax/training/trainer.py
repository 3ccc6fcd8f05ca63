"""Training from Python: what `codea1 train` does, with rewards, questions or a judge of your own.

config = load(Config, "micro/a1", ["run.directory=runs/mine"])
with Trainer(config) as trainer:
    results = trainer.train()
print(results.summary["final"])
"""

import json
import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codea1_jax.common.errors import Interrupted
from codea1_jax.common.files import read_lines
from codea1_jax.common.words import counted
from codea1_jax.config import Config
from codea1_jax.game.rewards import CodeReward, RewardFunctions, TestReward
from codea1_jax.models.ahead import drop_waiting
from codea1_jax.models.compiled import newly_compiled
from codea1_jax.run.report import build_report
from codea1_jax.run.rundir import REFUSED_FILE, SUMMARY_FILE, RunDir
from codea1_jax.run.summary import summarize
from codea1_jax.run.telemetry import METRICS_FILE, rollouts_path
from codea1_jax.runtime.interrupts import Interrupts
from codea1_jax.training.advice import schedule_advice
from codea1_jax.training.checks import check_run, named_function
from codea1_jax.training.loop import evaluate, train
from codea1_jax.training.parts import Training, make_judge, make_training
from codea1_jax.training.questions import GivenQuestions
from codea1_jax.training.sources import GIVEN
from codea1_jax.training.start import compile_ahead, own_starts, resume, start
from codea1_jax.training.state import State
from data_pipeline import Problem, Refusal
from data_pipeline.benchmark import PACKAGES
from sandbox import Judge

logger = logging.getLogger(__name__)

NAMED = 3  # refused questions on the console, for each reason
BEFORE_TRAINING = "seconds/before_training"  # of the run's first start


@dataclass(frozen=True)
class Results:
    path: Path

    @property
    def summary(self) -> dict[str, Any]:
        """Seconds and, if it was evaluated, first and last figures, in percent; empty until the run has ended."""
        file = self.path / SUMMARY_FILE
        return json.loads(file.read_text()) if file.exists() else {}

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def metrics(self, kind: str = "train") -> list[dict[str, Any]]:
        return [line for line in read_lines(self.path / METRICS_FILE) if line["kind"] == kind]

    def rollouts(self, step: int) -> list[dict[str, Any]]:
        """What a step played, a record per question: programs, suites, verdicts, rewards and advantages."""
        return read_lines(rollouts_path(self.path, step))


class Trainer:
    """One run of a configuration. Use as a context manager, which reads the questions and starts the judge.

    questions, heldout: instead of those that `data` names. A run records the source of given questions as `python`.
    judge: instead of the one that `sandbox` describes; it is not closed.
    code_reward, test_reward: instead of the paper's; each is given the paper's reward as well. The same call on the
    same arguments must give the same number, or a resumed run differs and several hosts disagree.
    resume: continue the run in `run.directory`, with the same arguments.

    On several hosts, enter `codea1_jax.runtime.join.joined` first.
    """

    def __init__(
        self,
        config: Config,
        *,
        questions: Sequence[Problem] | None = None,
        heldout: Sequence[Problem] | None = None,
        judge: Judge | None = None,
        code_reward: CodeReward | None = None,
        test_reward: TestReward | None = None,
        resume: bool = False,
    ) -> None:
        if questions is not None:
            config = config.model_copy(update={"data": config.data.model_copy(update={"source": GIVEN})})
        self.config = config
        self._given = GivenQuestions(questions, heldout)
        self._judge = judge
        named = config.rewards
        self._rewards = RewardFunctions(
            code_reward or named_function("rewards.code", named.code),
            test_reward or named_function("rewards.test", named.test),
        )
        self._resume = resume
        self._directory = Path(config.run.directory)
        self._stack = ExitStack()
        self._state: State | None = None

    def __enter__(self) -> "Trainer":
        """Raises UserError for what cannot be used, SandboxUnavailable if there is no judge."""
        self._started = time.perf_counter()
        newly_compiled()  # what was compiled before is not the run's
        config, directory = self.config, self._directory
        check_run(config, resume=self._resume)  # before anything that takes time
        logger.info("%s: starting the judge and checking the questions", directory)
        with ExitStack() as stack:
            packages = PACKAGES if config.eval.datasets else ()
            judge = self._judge or stack.enter_context(make_judge(config.sandbox, packages))
            self._training = make_training(config, judge, self._given, self._rewards)
            if not self._resume:
                own_starts(self._training)  # a start that cannot be used leaves no directory behind
            self._stack = stack.pop_all()  # closed here only if something above failed
        return self

    def __exit__(self, *exception: object) -> None:
        drop_waiting()
        self._stack.close()

    def train(self) -> Results:
        """Trains to the last step; the run's directory then has its summary and its report.

        Raises Interrupted, after saving, at SIGINT, SIGTERM or SIGHUP; what `training.loop.train` raises; and
        UserError if the directory holds a run and `resume` is not set.
        """
        training, config = self._training, self.config
        with RunDir(self._directory, config, config.checkpoint, resume=self._resume, wandb=config.run.wandb) as run:
            refused = (*training.questions.refused, *training.evaluation.benchmark.unjudged)
            _report_refused(refused, training.questions.dropped, run)
            if run.writes:
                _report_schedule(training, config)
            if self._resume and run.resume_step is None:
                logger.info("%s: found no checkpoint to resume from; starting a new run", self._directory)
            compile_ahead(training)
            with Interrupts():  # the run's directory is there: it is to be continued
                state = start(training) if run.resume_step is None else resume(training, run)
            if run.resume_step is not None:
                logger.info("%s: resumed from step %d", self._directory, state.step)
            ready = time.perf_counter()
            figures = {BEFORE_TRAINING: ready - self._started, **newly_compiled()}
            if not run.figures("start"):  # else a run that is resumed
                run.log("start", 0, figures)
            try:
                self._state = train(training, state, run)
            except Interrupted:
                if run.writes:
                    build_report([run.path])
                raise
            took = time.perf_counter() - ready + _seconds_until(run, run.resume_step)
            before = run.figures("start")[0][BEFORE_TRAINING]
            seconds = {"before_training": before, "training": took, "total": before + took}
            if run.writes:
                had_ended = run.resume_step == training.total_steps and (run.path / SUMMARY_FILE).exists()
                if not had_ended:  # else the summary stays as it is
                    run.write_summary(summarize(run.figures("eval"), seconds, config.eval.samples))
                build_report([run.path])
        return Results(self._directory)

    def evaluate(self) -> dict[str, float]:
        """The models on held-out questions and benchmarks, in percent: as trained, or before training as they start."""
        return evaluate(self._training, start(self._training) if self._state is None else self._state)


def _report_schedule(training: Training, config: Config) -> None:
    train, heldout = len(training.questions.train), len(training.questions.heldout)
    questions = f"{counted(train, 'question')} to train on, {heldout} held out"
    logger.info("%s; %s of %d", questions, counted(training.total_steps, "step"), config.train.questions)
    for line in schedule_advice(config, train, heldout):
        logger.warning("%s", line)


def _report_refused(refused: Sequence[Refusal], dropped_tests: Sequence[Refusal], run: RunDir) -> None:
    run.write_refused([vars(refusal) for refusal in (*refused, *dropped_tests)])
    if dropped_tests:
        questions = counted(len({test.id for test in dropped_tests}), "question")
        logger.warning("%s of %s left out: see %s", counted(len(dropped_tests), "test"), questions, REFUSED_FILE)
    for line in describe_refused(refused):
        logger.warning("%s; see %s", line, REFUSED_FILE)


def describe_refused(refused: Sequence[Refusal]) -> list[str]:
    by_reason = defaultdict(list)
    for refusal in refused:
        by_reason[refusal.reason].append(refusal.id)
    return [
        f"{counted(len(ids), 'question')} refused: {reason} ({', '.join(ids[:NAMED])}{', ...' if ids[NAMED:] else ''})"
        for reason, ids in sorted(by_reason.items(), key=lambda each: -len(each[1]))
    ]


def _seconds_until(run: RunDir, step: int | None) -> float:
    lines = [*run.figures("train"), *run.figures("eval")] if step is not None else []
    took = [line.get(f"seconds/{part}", 0.0) for line in lines if line["step"] <= step for part in ("step", "eval")]
    return sum(took, start=0.0)
