import argparse
import logging
from pathlib import Path

from codea1_jax.cli._output import log_to_stderr
from codea1_jax.cli._runtime import DONE
from codea1_jax.run.report import build_report, follow_report
from codea1_jax.run.rundir import run_folder


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument("--out", type=Path, help="the file to write")
    parser.add_argument("--follow", action="store_true", help="rewrite it every 10 seconds until Ctrl-C")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    log_to_stderr(logging.WARNING)
    write = follow_report if options.follow else build_report
    print(write([*map(run_folder, options.runs)], options.out))
    return DONE
