"""`codea1 reproduce`: the paper's tables, with whatever runs they still need."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codea1_jax.cli.evaluation import positive
from codea1_jax.cli.runtime import DONE
from codea1_jax.run.config import ConfigError

if TYPE_CHECKING:
    from codea1_jax.cli.arguments import Commands
    from codea1_jax.reproduce.experiments import Laboratory, Table
    from codea1_jax.reproduce.works import Work

ALL = "all"


def add(commands: Commands) -> None:
    """Registers the command."""
    parser = commands.add_parser("reproduce", help="train, evaluate and write the paper's tables in the micro world")
    parser.add_argument("table", help=f"code, tests, alpha, components, static, collaboration, or {ALL}")
    parser.add_argument("--seeds", type=positive, default=5, help="default: %(default)s")
    parser.add_argument("--steps", type=positive, default=60, help="of every training run; default: %(default)s")
    parser.add_argument(
        "--questions", type=positive, default=256, help="to train on and held out; default: %(default)s"
    )
    parser.add_argument("--at-once", type=positive, default=2, help="commands run at a time; default: %(default)s")
    parser.add_argument("--out", type=Path, default=Path("runs/lab"), help="folder of runs and tables; %(default)s")
    parser.add_argument("--dry-run", action="store_true", help="print the missing commands and stop")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from codea1_jax.reproduce.experiments import Laboratory, micro_tables
    from codea1_jax.reproduce.works import in_order

    lab = Laboratory(options.out, options.steps, options.questions, options.questions)
    tables = micro_tables(lab)
    if options.table not in (*tables, ALL):
        raise ConfigError(f"no table {options.table!r}; there are {', '.join(tables)} and {ALL}")
    chosen = list(tables.values()) if options.table == ALL else [tables[options.table]]
    seeds = range(options.seeds)
    works = in_order(row.work(seed) for table in chosen for seed in seeds for row in table.rows)
    if options.dry_run:
        print("\n".join(shlex.join(["codea1", *work.arguments]) for work in works if not work.finished))
        return DONE
    _prepare(lab, seeds)
    _work(works, options.at_once)
    _write(chosen, seeds, options)
    return DONE


def _prepare(lab: Laboratory, seeds: Sequence[int]) -> None:
    """Writes the questions that evaluating commands read."""
    from codea1_jax.reproduce.experiments import problems_file
    from data_pipeline import micro, problem_files

    lab.folder.mkdir(parents=True, exist_ok=True)
    problem_files.write(problems_file(lab, "heldout", 0), micro.problems("heldout", lab.heldout, 0))
    for seed in seeds:
        problem_files.write(problems_file(lab, "train", seed), micro.problems("train", lab.problems, seed))


def _work(works: Sequence[Work], at_once: int) -> None:
    """Runs what is missing, saying beforehand how much that is, and shows how far it is."""
    from codea1_jax.reproduce.works import Running, run_all

    missing = [work for work in works if not work.finished]
    trainings = sum(work.arguments[0] == "train" for work in missing)
    print(
        f"codea1: {len(works) - len(missing)} of {len(works)} commands are done; "
        f"missing: {trainings} training runs, {len(missing) - trainings} evaluations",
        file=sys.stderr,
    )

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=len(works), completed=len(works) - len(missing))

        def tell(running: Running) -> None:
            names = ", ".join(work.directory.name for work in running.works)
            bar.update(task, completed=running.done, description=names)

        run_all(works, at_once, tell)


def _write(tables: Sequence[Table], seeds: Sequence[int], options: argparse.Namespace) -> None:
    from codea1_jax.reproduce.page import page
    from codea1_jax.reproduce.results import read_table
    from codea1_jax.reproduce.write import comma_separated, latex, markdown, published, published_markdown
    from codea1_jax.run.telemetry import write_atomically

    papers = published()
    results = [read_table(table, seeds) for table in tables]
    command = f"codea1 reproduce {options.table} --seeds {options.seeds} --steps {options.steps}"
    for result in results:
        paper = [published_markdown(papers[result.name])] if result.name in papers else []
        text = "\n".join([markdown(result), *paper])
        write_atomically(options.out / f"{result.name}.md", text)
        write_atomically(options.out / f"{result.name}.csv", comma_separated(result))
        write_atomically(options.out / f"{result.name}.tex", latex(result))
        print(markdown(result))
    write_atomically(options.out / "tables.html", page(results, papers, command))
    print(options.out / "tables.html")
