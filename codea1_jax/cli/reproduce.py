"""`codea1 reproduce`: the paper's tables, with whatever runs they still need."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codea1_jax.cli._evaluation import positive
from codea1_jax.cli._runtime import DONE
from codea1_jax.errors import UserError
from configs import hardware_names, model_names

if TYPE_CHECKING:
    from codea1_jax.cli._arguments import Commands
    from codea1_jax.reproduce.commands import Command
    from codea1_jax.reproduce.experiments import MicroBudget, Table

ALL, DYNAMICS = "all", "dynamics"


def add(commands: Commands) -> None:
    """Registers the command."""
    parser = commands.add_parser("reproduce", help="train, evaluate and write the paper's tables in the micro world")
    parser.add_argument("table", help=f"code, tests, alpha, components, dynamics, static, collaboration, or {ALL}")
    parser.add_argument(
        "--model",
        choices=model_names(),
        default="micro",
        help="any model but micro: only list the presets to train; default: %(default)s",
    )
    parser.add_argument("--seeds", type=positive, default=5, help="default: %(default)s")
    parser.add_argument("--steps", type=positive, default=40, help="training steps of every run; default: %(default)s")
    parser.add_argument(
        "--questions", type=positive, default=256, help="questions to train on, and to hold out; default: %(default)s"
    )
    parser.add_argument("--at-once", type=positive, default=2, help="commands run at a time; default: %(default)s")
    parser.add_argument("--out", type=Path, default=Path("runs/lab"), help="folder of runs and tables; %(default)s")
    parser.add_argument("--dry-run", action="store_true", help="print the missing commands and stop")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from codea1_jax.reproduce.commands import in_order
    from codea1_jax.reproduce.experiments import MicroBudget, micro_tables

    lab = MicroBudget(options.out, options.steps, options.questions, options.questions)
    tables = micro_tables(lab)
    if options.table not in (*tables, ALL):
        raise UserError(f"no table {options.table!r}; there are {', '.join(tables)} and {ALL}")
    if options.model != "micro":
        return _of_real_size(options)
    chosen = list(tables.values()) if options.table == ALL else [tables[options.table]]
    seeds = range(options.seeds)
    commands = in_order(row.command(seed) for table in chosen for seed in seeds for row in table.rows)
    _check_budget(commands)
    if options.dry_run:
        print("\n".join(shlex.join(["codea1", *command.arguments]) for command in commands if not command.finished))
        return DONE
    _prepare(lab, seeds)
    _run_missing(commands, options.steps, options.at_once)
    _write(chosen, seeds, options)
    return DONE


def _check_budget(commands: Sequence[Command]) -> None:
    """Raises UserError if a finished run was trained for other steps, or on other questions, than it would be now."""
    import yaml

    from codea1_jax.run.rundir import CONFIG_FILE

    for command in commands:
        if not command.finished or command.arguments[0] != "train":
            continue
        chosen = dict(override.split("=", 1) for override in command.arguments[2:])
        recorded = yaml.safe_load((command.directory / CONFIG_FILE).read_text())
        for section, name in (("train", "steps"), ("data", "problems"), ("data", "heldout_problems")):
            if str(recorded[section][name]) != chosen[f"{section}.{name}"]:
                raise UserError(
                    f"--out: {command.directory} was trained with {section}.{name}={recorded[section][name]}; choose "
                    "another folder, or what its runs were trained with"
                )


def _of_real_size(options: argparse.Namespace) -> int:
    """Prints what has to be trained. Raises UserError unless that was all that was asked for."""
    from codea1_jax.plan.planned import read_plans
    from codea1_jax.reproduce.experiments import AUTHORS, STARTS
    from codea1_jax.reproduce.published import published

    papers, hours = published(), read_plans().hours
    chosen = list(papers.values()) if options.table == ALL else [papers[options.table]]
    shown = [each for paper in chosen for row in paper.rows.values() for each in row]
    before = AUTHORS | STARTS  # the method whose run another learns or starts from
    print("codea1 data prepare kodcode   # the questions, once")
    for method in dict.fromkeys(name for each in shown for name in (before.get(each, each), each)):
        name, runs = f"{options.model}/{method}", f"runs/{options.model}"
        if method in AUTHORS:
            author = AUTHORS[method]
            print(f"codea1 eval suites --data data/kodcode --model {runs}-{author} --out {runs}-suites-{author}")
        on = ", ".join(f"_{k} {hours[f'{name}_{k}'][1]:.1f} h" for k in hardware_names() if f"{name}_{k}" in hours)
        hours_each = f"expected {on}" if on else "hours unknown"
        print(f"codea1 train {name}   # {hours_each}, for each of {options.seeds} seeds")
    if options.dry_run:
        return DONE
    raise UserError(
        f"--model {options.model}: only --model micro is trained here; these presets are for accelerators: start them "
        "with `python -m launch` (docs/tables.md)"
    )


def _prepare(lab: MicroBudget, seeds: Sequence[int]) -> None:
    """Writes the questions that evaluating commands read."""
    from codea1_jax.files import naming

    lab.folder.mkdir(parents=True, exist_ok=True)
    with naming(lab.folder):
        _write_problems(lab, seeds)


def _write_problems(lab: MicroBudget, seeds: Sequence[int]) -> None:
    from codea1_jax.reproduce.experiments import problems_file
    from data_pipeline import micro, problem_files

    problem_files.write(problems_file(lab, "heldout", 0), micro.problems("heldout", lab.heldout, 0))
    for seed in seeds:
        problem_files.write(problems_file(lab, "train", seed), micro.problems("train", lab.problems, seed))


def _run_missing(commands: Sequence[Command], steps: int, at_once: int) -> None:
    """Runs the missing commands; prints beforehand how much that is, and shows how far it is."""
    from codea1_jax.reproduce.commands import Running, run_all
    from codea1_jax.reproduce.estimate import estimate

    missing = [command for command in commands if not command.finished]
    trainings = sum(command.arguments[0] == "train" for command in missing)
    expected = estimate(commands, steps, at_once)
    print(
        f"codea1: {len(commands) - len(missing)} of {len(commands)} commands are done; missing: {trainings} training "
        f"runs, {len(missing) - trainings} evaluations, about {expected.seconds / 60:.0f} minutes "
        f"({expected.measured} of {len(missing)} by finished ones, the others by a first guess)",
        file=sys.stderr,
    )

    from codea1_jax.console import progress_bar

    with progress_bar("commands done:", total=len(commands), done=len(commands) - len(missing)) as show:

        def on_progress(running: Running) -> None:
            names = ", ".join(command.directory.name for command in running.commands)
            show(running.done, len(commands), names)

        run_all(commands, at_once, on_progress)


def _write(tables: Sequence[Table], seeds: Sequence[int], options: argparse.Namespace) -> None:
    from codea1_jax.files import write_atomically
    from codea1_jax.reproduce.dynamics import by_step, charts, ends, read_dynamics
    from codea1_jax.reproduce.page import page
    from codea1_jax.reproduce.published import published
    from codea1_jax.reproduce.results import read_table
    from codea1_jax.reproduce.write import comma_separated, latex, markdown, published_markdown

    papers = published()
    results = [(ends if table.name == DYNAMICS else read_table)(table, seeds) for table in tables]
    curves = {table.name: read_dynamics(table, seeds) for table in tables if table.name == DYNAMICS}
    command = f"codea1 reproduce {options.table} --seeds {options.seeds} --steps {options.steps}"
    for result in results:
        paper = [published_markdown(papers[result.name])] if papers[result.name].models else []
        text = "\n".join([markdown(result), *paper])
        write_atomically(options.out / f"{result.name}.md", text)
        write_atomically(options.out / f"{result.name}.csv", comma_separated(result))
        write_atomically(options.out / f"{result.name}.tex", latex(result))
        print(markdown(result))
    for name, drawn in curves.items():
        write_atomically(options.out / f"{name}_by_step.csv", by_step(drawn))
    html = page(results, papers, command, {name: charts(drawn) for name, drawn in curves.items()})
    write_atomically(options.out / "tables.html", html)
    print(options.out / "tables.html")
