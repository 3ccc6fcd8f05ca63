"""The command line. Results go to standard output, everything else to standard error.

Exit codes: 0 done; 1 failed for an outer reason, such as a full disk or a judge that died (one line says which; what
was saved is good); 2 bad input (one line says what and how to mend it); 130 stopped and resumable.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codea1_jax.run.config import ConfigError, dump, load, preset_names
from codea1_jax.run.interrupts import Interrupted
from sandbox import SandboxError, SandboxPool, SandboxUnavailable
from sandbox.bearer import VARIABLE, read_token

if TYPE_CHECKING:
    from codea1_jax.run.rundir import RunDir
    from data_pipeline import Refusal

logger = logging.getLogger(__name__)

FAILED = 1
BAD_INPUT = 2
STOPPED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    options = _parse(arguments)
    try:
        return options.run(options)
    except (ConfigError, SandboxUnavailable) as error:
        print(f"codea1: {error}", file=sys.stderr)
        return BAD_INPUT
    except (OSError, SandboxError, FloatingPointError) as error:
        print(f"codea1: {error}", file=sys.stderr)
        return FAILED
    except Interrupted as error:
        print(f"codea1: stopped by {error}; go on with the same command and --resume", file=sys.stderr)
        return STOPPED
    except KeyboardInterrupt:
        print("codea1: stopped", file=sys.stderr)
        return STOPPED


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    # argparse takes no key=value that stands behind an option; they are overrides all the same.
    if rest and ("overrides" not in options or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.overrides += rest
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="codea1", description=str(__doc__).partition("\n")[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    train = commands.add_parser("train", help="train both models")
    train.add_argument("preset", help="a preset's name or a YAML file")
    train.add_argument("overrides", nargs="*", metavar="key=value", help="for example rollout.samples=4")
    train.add_argument("--resume", action="store_true", help="go on from the run's last checkpoint")
    train.add_argument("--dry-run", action="store_true", help="print the resolved configuration and stop")
    train.set_defaults(run=_train)

    presets = commands.add_parser("presets", help="list the shipped presets")
    presets.set_defaults(run=_presets)

    report = commands.add_parser("report", help="write a run's report.html")
    report.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    report.add_argument("--out", type=Path, help="the file to write")
    report.set_defaults(run=_report)

    sandbox = commands.add_parser("sandbox", help="the judge by itself")
    judge = sandbox.add_subparsers(required=True, metavar="COMMAND")
    check = judge.add_parser("check", help="say what of the judge works on this host, and how to mend the rest")
    check.set_defaults(run=_sandbox_check)

    serve = judge.add_parser("serve", help="judge over HTTP, for runs with sandbox.backend=http")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on; default: %(default)s")
    serve.add_argument("--port", type=_port, default=8787, help="default: %(default)s")
    serve.add_argument("--token-file", type=Path, help=f"the bearer token clients must send; default: ${VARIABLE}")
    serve.set_defaults(run=_sandbox_serve)
    return parser


def _port(text: str) -> int:
    if not (text.isdecimal() and 0 < int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text} is no port")
    return int(text)


def _presets(options: argparse.Namespace) -> int:
    print("\n".join(preset_names()))
    return 0


def _report(options: argparse.Namespace) -> int:
    from codea1_jax.run.report import build_report

    print(build_report(options.runs, options.out))
    return 0


def _sandbox_check(_options: argparse.Namespace) -> int:
    from sandbox.doctor import report

    diagnosis = report()
    print(diagnosis)
    return 0 if diagnosis.jailed else BAD_INPUT


def _sandbox_serve(options: argparse.Namespace) -> int:
    try:
        from sandbox.service import serve
    except ModuleNotFoundError as error:
        raise SandboxUnavailable(f"serving needs {error.name}: pip install 'codea1-jax[serve]'") from error
    token = read_token(options.token_file)
    with SandboxPool() as pool:

        def tell() -> None:
            workers = f"{len(pool.worker_pids)} {pool.backend} workers"
            print(f"codea1: judging with {workers} at {options.host}, port {options.port}", file=sys.stderr)

        serve(pool, options.host, options.port, token, tell)
    return 0


def _train(options: argparse.Namespace) -> int:
    from codea1_jax.config import Config

    config = load(Config, options.preset, options.overrides)
    if options.dry_run:
        print(dump(config), end="")
        return 0
    from codea1_jax.assemble import make_parts, make_pool
    from codea1_jax.run.rundir import RunDir, check_same_run
    from codea1_jax.run.telemetry import log_to_stderr
    from codea1_jax.train import resume, start, train

    log_to_stderr()
    _keep_compiled_programs()

    started = time.perf_counter()
    directory = Path(config.run.directory)
    check_same_run(directory, config, options.resume)  # before anything that takes time
    keep_last = config.checkpoint.keep_last
    with make_pool(config) as pool:
        parts = make_parts(config, pool)
        with RunDir(directory, config, resume=options.resume, keep_last=keep_last, wandb=config.run.wandb) as run:
            _tell_refused(parts.questions.refused, run)
            state = start(parts) if run.resume_step is None else resume(parts, run)
            ready = time.perf_counter()
            train(parts, state, run)
            finished = time.perf_counter()
            training = finished - ready + _seconds_until(run, run.resume_step)
            seconds = {"before_training": ready - started, "training": training, "total": ready - started + training}
            _conclude(run, seconds, config.eval.samples, Path(options.preset).stem)
    return 0


def _keep_compiled_programs() -> None:
    """Keeps compiled programs between runs, unless the user has said where."""
    import jax

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(Path(".cache/jax").absolute()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def _tell_refused(refused: Sequence[Refusal], run: RunDir) -> None:
    run.write_refused([vars(refusal) for refusal in refused])
    for reason, count in Counter(refusal.reason for refusal in refused).most_common():
        logger.warning("%d questions refused: %s", count, reason)


def _seconds_until(run: RunDir, step: int | None) -> float:
    """What the steps and evaluations up to a step took: the part of a resumed run that lies behind it."""
    lines = [*run.figures("train"), *run.figures("eval")] if step is not None else []
    return sum(line.get(f"seconds/{part}", 0.0) for line in lines if line["step"] <= step for part in ("step", "eval"))


def _conclude(run: RunDir, seconds: dict[str, float], samples: int, trained: str) -> None:
    from rich.console import Console

    from codea1_jax.run.report import build_report
    from codea1_jax.summary import summarize, table

    evaluations = run.figures("eval")
    if evaluations:
        summary = summarize(evaluations, seconds, samples)
        run.write_summary(summary)
        Console().print(table(summary, trained))
    print(build_report([run.path]))
