import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from codea1_jax.cli._runtime import DONE
from codea1_jax.common.console import progress_bar
from codea1_jax.common.errors import UserError
from codea1_jax.common.files import naming, write_atomically
from codea1_jax.common.words import counted
from codea1_jax.config import Config, load, preset_names, read_templates
from codea1_jax.reproduce.commands import Command, in_order, run_all
from codea1_jax.reproduce.experiments import Lab, Table, tables
from codea1_jax.reproduce.hypotheses import examine, hypotheses
from codea1_jax.reproduce.micro_lab import MicroLab
from codea1_jax.reproduce.paper_lab import FUNCTIONS, KODCODE, PLACES, PROGRAMS, PaperLab, pretrained
from codea1_jax.reproduce.published import Published, extensions, published
from codea1_jax.reproduce.results import ends, read_table
from codea1_jax.reproduce.write import comma_separated, hypotheses_markdown, markdown, published_markdown
from codea1_jax.run.rundir import CONFIG_FILE
from codea1_judge.cli import positive
from configs import MICROS, PAPERS, hardware_names
from data_pipeline import micro, problem_files
from data_pipeline.hub import hub_name
from data_pipeline.storage import PREPARED

ALL, DYNAMICS, LOCAL = "all", "dynamics", "local"
VALIDATION = ("humanevalplus", "mbppplus")  # on which runs validate, and which training data may not overlap
MANIFEST = "manifest.json"
NOUNS = {"preparation": "preparation", "training": "training run", "evaluation": "evaluation"}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "tables",
        nargs="+",
        metavar="TABLE",
        help=f"code, tests, alpha, components, dynamics, static, collaboration, or {ALL} of these; with micro models "
        "also rewards, mechanisms, which the paper does not have",
    )
    parser.add_argument(
        "--model",
        choices=(*MICROS, *PAPERS),
        default=MICROS[0],
        help="micro: the laboratory, for two CPU cores; micro-stream: the same on programs that read standard input; "
        "micro-hard: on nested conditions, loops and strings; "
        "default: %(default)s",
    )
    parser.add_argument("--seeds", type=positive, help="default: 5 for micro, else 1")
    parser.add_argument("--steps", type=positive, help="training steps of every run; default: 40 for micro")
    parser.add_argument("--questions", type=positive, help="micro: questions to train on; default: 256")
    parser.add_argument("--heldout", type=positive, help="micro: questions to hold out; default: as many")
    parser.add_argument("--at-once", type=positive, help="commands run at a time; default: 2 for micro")
    parser.add_argument("--out", type=Path, help="folder of tables and runs; default: runs/lab")
    parser.add_argument("--dry-run", action="store_true", help="print the missing commands and stop")
    _add_larger(parser.add_argument_group("larger models"))
    parser.set_defaults(run=_run)


def _add_larger(real: argparse._ArgumentGroup) -> None:
    real.add_argument("--hardware", help=f"what presets are laid out for, as in v5e:4x4 or h100:8; or {LOCAL}")
    real.add_argument(
        "--as",
        choices=("paper", "ours"),
        dest="as_",
        help="paper: with the original's choices (presets MODEL/METHOD_paper); ours: with the defaults; default: paper",
    )
    real.add_argument("--templates", metavar="FILE", help="YAML of prompts in place of ours, for every run")
    real.add_argument(
        "--data",
        nargs="+",
        default=(),
        metavar="NAME=PLACE",
        help="where rows are read: kodcode, humanevalplus, mbppplus, bigcodebench, ult; default: the Hub, and ult.json",
    )
    real.add_argument(
        "--environment",
        type=Path,
        metavar="VENV",
        help="virtual environment whose packages BigCodeBench's programs may import",
    )


def _run(options: argparse.Namespace) -> int:
    micro = options.model in MICROS
    known = published() | (extensions() if micro else {})
    if unknown := [name for name in options.tables if name not in (*known, ALL)]:
        raise UserError(f"no table {unknown[0]!r}; there are {', '.join(known)} and {ALL}")
    whole = published() if ALL in options.tables else {}
    options.tables = list(dict.fromkeys((*whole, *(name for name in options.tables if name != ALL))))
    options.out = options.out or Path("runs", "lab" if options.model == MICROS[0] else f"lab-{options.model}")
    options.seeds = range(options.seeds or (5 if micro else 1))
    lab = micro_lab(options) if micro else paper_lab(options)
    papers = lab.shown({name: known[name] for name in options.tables})
    asked = list(tables(lab, papers).values())
    rows = [(row, seed) for seed in options.seeds for table in asked for row in table.rows]  # a seed at a time
    needed = in_order(command for row, seed in rows for command in row.commands(seed))
    commands = sorted(needed, key=lambda command: command.kind != "preparation")  # what fails early is best begun first
    _check_budget(commands)
    missing = [command for command in commands if not command.finished]
    kinds = Counter(command.kind for command in missing)
    parts = [counted(kinds[kind], noun) for kind, noun in NOUNS.items() if kinds[kind] or kind != "preparation"]
    done = f"{len(commands) - len(missing)} of {len(commands)} commands are done"
    print(f"codea1: {done}; missing: {', '.join(parts)}", file=sys.stderr)
    if options.dry_run:
        print("\n".join(map(str, missing)))
        return DONE
    if isinstance(lab, MicroLab):
        _write_problems(lab, options.seeds)
    else:
        check_ready(options)
    with progress_bar("commands done:") as show:

        def on_progress(done: int, running: Sequence[Command]) -> None:
            show(done, len(commands), ", ".join(command.directory.name for command in running))

        run_all(commands, options.at_once or (2 if micro else 1), on_progress)
    _write(asked, papers, lab, options)
    return DONE


def _check_budget(commands: Sequence[Command]) -> None:
    """Raises UserError if a finished run was trained for other steps, or on other questions, than it would be now."""
    trained = [command for command in commands if command.words[:2] == ("codea1", "train") and command.finished]
    if not trained:
        return  # in a second less

    for command in trained:
        chosen = load(Config, command.words[2], command.words[3:]).model_dump(mode="json")
        recorded = yaml.safe_load((command.directory / CONFIG_FILE).read_text())
        for section, name in (("train", "steps"), ("data", "problems"), ("data", "heldout_problems")):
            if recorded[section][name] != chosen[section][name]:
                raise UserError(
                    f"--out: {command.directory} was trained with {section}.{name}={recorded[section][name]}; choose "
                    "another folder, or what its runs were trained with"
                )


def _write_problems(lab: MicroLab, seeds: Iterable[int]) -> None:
    lab.folder.mkdir(parents=True, exist_ok=True)
    with naming(lab.folder):
        problem_files.write(lab.heldout_file, micro.problems("heldout", lab.heldout, 0, lab.form))
        for seed in seeds:
            problem_files.write(lab.train_file(seed), micro.problems("train", lab.problems, seed, lab.form))


def _write(tables: Sequence[Table], papers: Mapping[str, Published], lab: Lab, options: argparse.Namespace) -> None:
    seeds, model = options.seeds, options.model
    results = [
        ends(table, seeds) if table.name == DYNAMICS else read_table(table, seeds, papers[table.name], model)
        for table in tables
    ]
    for result in results:
        text = markdown(result, lab.rules(result.columns))
        paper = [published_markdown(papers[result.name])] if papers[result.name].models else []
        write_atomically(options.out / f"{result.name}.md", "\n".join([text, *paper]))
        write_atomically(options.out / f"{result.name}.csv", comma_separated(result))
        print(text)
    if model in MICROS and len(seeds) > 1 and (families := examine(hypotheses(), tables, seeds)):
        text = hypotheses_markdown(families, len(seeds))
        write_atomically(options.out / "hypotheses.md", text)
        print(text)
    print(options.out)


# --- laboratories --------------------------------------------------------------------------------------------


def micro_lab(options: argparse.Namespace) -> MicroLab:
    if options.hardware or options.data or options.environment or options.as_ or options.templates:
        raise UserError(
            f"--model {options.model}: the micro world takes no --hardware, --data, --environment, --as or "
            "--templates; choose another model"
        )
    questions = options.questions or 256
    return MicroLab(options.out, options.steps or 40, questions, options.heldout or questions, options.model)


def paper_lab(options: argparse.Namespace) -> PaperLab:
    if options.hardware is None and not options.dry_run:
        raise UserError(f"--hardware: name it, as in v5e:4x4 or h100:8; {LOCAL} takes whatever devices are here")
    if options.questions or options.heldout:
        raise UserError("--questions, --heldout: only the micro world's can be chosen; leave them out")
    if options.templates:
        read_templates(options.templates)
    places = _named_places(options.data)
    validation = list(dict.fromkeys(places[name] for name in VALIDATION if name in places))
    steps = () if options.steps is None else (f"train.steps={options.steps}",)
    return PaperLab(
        model=options.model,
        hardware=_kind(options),
        folder=options.out,
        weights=pretrained(options.model),
        data=str(PREPARED / KODCODE),
        preparing_data=(prepare(places),),
        places=PLACES | {name: place for name, place in places.items() if name != KODCODE},
        overrides=(*steps, *((f"eval.datasets=[{', '.join(validation)}]",) if validation else ())),
        environment=options.environment,
        as_paper=options.as_ != "ours",
        templates=options.templates,
    )


def _named_places(words: Iterable[str]) -> dict[str, str]:
    known = (KODCODE, *PLACES)
    places = {}
    for word in words:
        name, equals, place = word.partition("=")
        if not equals or not place or name not in known:
            raise UserError(f"--data {word}: write NAME=PLACE, where NAME is one of {', '.join(known)}")
        places[name] = place
    return places


def _kind(options: argparse.Namespace) -> str:
    if options.hardware in (None, LOCAL):
        return ""
    kinds = [kind for kind in hardware_names() if f"{options.model}/a1_{kind}" in preset_names()]
    by_hardware = {load(Config, f"{options.model}/a1_{kind}").hardware: kind for kind in kinds}
    if options.hardware not in by_hardware:
        known = ", ".join(map(str, by_hardware))
        raise UserError(
            f"--hardware {options.hardware}: presets of {options.model} are laid out for {known}; or {LOCAL}"
        )
    return by_hardware[options.hardware]


def prepare(places: Mapping[str, str]) -> Command:
    words = ["codea1", "data", "prepare", KODCODE]
    if KODCODE in places:
        against = list(dict.fromkeys(places[name] for name in VALIDATION if name in places))
        words += ["--source", places[KODCODE], *(["--against", *against] if against else [])]
    return Command(PREPARED / KODCODE, tuple(words), MANIFEST, "preparation")


def check_ready(options: argparse.Namespace) -> None:
    """Raises UserError, before anything is begun, if rows are not there."""
    tested = {"tests", "alpha", "components"} & set(options.tables)
    read = {name: place for name, place in PLACES.items() if name in PROGRAMS or (name == FUNCTIONS and tested)}
    for name, place in (read | _named_places(options.data)).items():
        if hub_name(place) is None and not (Path(place).exists() or any(Path().glob(place))):
            raise UserError(f"--data: {place}: no such file; name the rows, as in --data {name}=PLACE")
