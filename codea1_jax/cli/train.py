"""`codea1 train`: train both models."""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codea1_jax.cli._arguments import add_preset
from codea1_jax.cli._runtime import DONE, keep_compiled_programs
from codea1_jax.words import counted

if TYPE_CHECKING:
    from codea1_jax.cli._arguments import Commands
    from codea1_jax.config import Config
    from codea1_jax.run.rundir import RunDir
    from data_pipeline import Refusal

logger = logging.getLogger(__name__)


def add(commands: Commands) -> None:
    """Registers the command."""
    parser = commands.add_parser("train", help="train both models")
    add_preset(parser)
    parser.add_argument("--resume", action="store_true", help="resume from the run's last checkpoint")
    parser.add_argument("--dry-run", action="store_true", help="print the resolved configuration and stop")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from codea1_jax.config import Config, dump, load

    config = load(Config, options.preset, options.overrides)
    if options.dry_run:
        print(dump(config), end="")
        return DONE
    from codea1_jax.builders.sources import check_sources
    from codea1_jax.hosts.join import joined

    check_sources(config.data)  # before the other hosts are waited for
    with joined(config.hosts):
        _train(config, options)
    return DONE


def _train(config: Config, options: argparse.Namespace) -> None:
    from codea1_jax.builders.judges import make_judge
    from codea1_jax.builders.state import resume, start
    from codea1_jax.builders.training import make_training
    from codea1_jax.checkpoint.storage import check_writable
    from codea1_jax.console import log_to_stderr
    from codea1_jax.evals.scores.benchmark import PACKAGES
    from codea1_jax.hosts.agreement import agreement
    from codea1_jax.hosts.gather import is_writer, on_all
    from codea1_jax.hosts.interrupts import Interrupts
    from codea1_jax.run.rundir import RunDir, check_same_run, checkpoints_of
    from codea1_jax.train import check_best_metric, train

    log_to_stderr(logging.INFO if is_writer() else logging.WARNING)
    keep_compiled_programs()

    started = time.perf_counter()
    directory = Path(config.run.directory)
    check_same_run(directory, config, options.resume)  # before anything that takes time
    on_all(lambda: check_writable(checkpoints_of(directory, config.checkpoint)))
    logger.info("%s: starting the judge and checking the questions", config.run.directory)
    with make_judge(config.sandbox, PACKAGES if config.eval.datasets else ()) as judge:
        training = make_training(config, judge)
        check_best_metric(training)
        with RunDir(directory, config, config.checkpoint, resume=options.resume, wandb=config.run.wandb) as run:
            _report_refused((*training.questions.refused, *training.evaluation.benchmark.left_out), run)
            with Interrupts(agreement()):  # the run's directory is there: it is to be continued
                state = start(training) if run.resume_step is None else resume(training, run)
            ready = time.perf_counter()
            train(training, state, run)
            finished = time.perf_counter()
            took = finished - ready + _seconds_until(run, run.resume_step)
            seconds = {"before_training": ready - started, "training": took, "total": ready - started + took}
            if run.writes:
                had_ended = run.resume_step == training.total_steps
                _conclude(run, seconds, config.eval.samples, Path(options.preset).stem, had_ended=had_ended)


def _report_refused(refused: Sequence[Refusal], run: RunDir) -> None:
    run.write_refused([vars(refusal) for refusal in refused])
    for reason, count in Counter(refusal.reason for refusal in refused).most_common():
        logger.warning("%s refused: %s", counted(count, "question"), reason)


def _seconds_until(run: RunDir, step: int | None) -> float:
    """What the steps and evaluations up to a step took: the part of a resumed run that lies behind it."""
    lines = [*run.figures("train"), *run.figures("eval")] if step is not None else []
    took = [line.get(f"seconds/{part}", 0.0) for line in lines if line["step"] <= step for part in ("step", "eval")]
    return sum(took, start=0.0)


def _conclude(run: RunDir, seconds: dict[str, float], samples: int, trained: str, *, had_ended: bool) -> None:
    """Writes and prints the run's results; those of a run that had ended before stay as they are."""
    from codea1_jax.console import print_table
    from codea1_jax.report import build_report
    from codea1_jax.run.summary import summarize, table

    evaluations = run.figures("eval")
    summary = run.read_summary() if had_ended else None
    if summary is None:
        summary = summarize(evaluations, seconds, samples)
        run.write_summary(summary)
    if evaluations:
        print_table(table(summary, trained))
    print(build_report([run.path]))
