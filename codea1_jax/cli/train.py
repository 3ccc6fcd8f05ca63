from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from codea1_jax.cli._arguments import add_preset
from codea1_jax.cli._runtime import DONE, keep_compiled_programs

if TYPE_CHECKING:
    from codea1_jax.config import Config


def add(parser: argparse.ArgumentParser) -> None:
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
    from codea1_jax.runtime.join import joined
    from codea1_jax.training.sources import check_sources

    check_sources(config.data)  # before the other hosts are waited for
    hosts = config.hosts
    with joined(hosts.coordinator, hosts.count, hosts.index):
        _train(config, Path(options.preset).stem, resume=options.resume)
    return DONE


def _train(config: Config, trained: str, *, resume: bool) -> None:
    from codea1_jax.cli._output import log_to_stderr
    from codea1_jax.common.console import print_table
    from codea1_jax.run.summary import table
    from codea1_jax.runtime.devices import start_devices
    from codea1_jax.runtime.gather import is_writer
    from codea1_jax.training.trainer import Trainer

    log_to_stderr(logging.INFO if is_writer() else logging.WARNING)
    start_devices()
    keep_compiled_programs()
    with Trainer(config, resume=resume) as trainer:
        results = trainer.train()
    if is_writer():
        if "base" in results.summary:
            print_table(table(results.summary, trained))
        print(results.report)
