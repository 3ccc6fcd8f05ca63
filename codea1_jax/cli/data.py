import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from codea1_jax.cli._runtime import BAD_INPUT, DONE
from codea1_jax.common.console import progress_bar
from codea1_jax.common.errors import UserError
from codea1_jax.common.files import naming
from codea1_jax.common.words import counted
from codea1_jax.config import SandboxConfig
from data_pipeline.benchmark import PACKAGES
from data_pipeline.faults import find_faults
from data_pipeline.prepare import prepare
from data_pipeline.sources import RECIPES, Recipe
from sandbox import Limits, SandboxPool

DIFFICULTIES = ("easy", "medium", "medium_hard", "hard", "very_hard", "introductory", "interview", "competition")
OUT = Path("data")  # `data_pipeline.storage.PREPARED`, whose import takes a second


def add(parser: argparse.ArgumentParser) -> None:
    data = parser.add_subparsers(required=True, metavar="COMMAND")
    prepare = data.add_parser("prepare", help="clean and check a dataset's rows and write them as a TFDS dataset")
    prepare.add_argument("dataset", choices=tuple(RECIPES), help="a dataset of the Hub, or problems: your own")
    prepare.add_argument(
        "--source",
        help="file, folder, pattern, or dataset of the Hub (owner/name[/files]); default: the dataset's own there",
    )
    prepare.add_argument(
        "--out", type=Path, default=OUT, help="the dataset is written to OUT/DATASET; default: %(default)s"
    )
    prepare.add_argument(
        "--difficulty",
        nargs="+",
        choices=DIFFICULTIES,
        metavar="DIFFICULTY",
        help="questions to keep, by what KodCode and TACO (easy, medium, medium_hard, hard, very_hard) or APPS "
        "(introductory, interview, competition) call them; default: hard of KodCode, else all",
    )
    prepare.add_argument(
        "--against",
        nargs="*",
        metavar="SOURCE",
        help="evaluation sets that training sets may not overlap; default without --source: HumanEval+ and MBPP+ of "
        "the Hub, else none",
    )
    prepare.add_argument("--json", action="store_true", help="print nothing but the manifest, on one line")
    prepare.set_defaults(run=_prepare)

    validate = data.add_parser("validate", help="check a file of problems, line by line")
    validate.add_argument(
        "file",
        type=Path,
        help="JSONL of {id, question, solution, entry_point, tests?}; of programs {id, question, solution, tests: "
        "[{input, output}]}",
    )
    validate.add_argument("--json", action="store_true", help="print one JSON document on one line")
    validate.set_defaults(run=_validate)


def _prepare(options: argparse.Namespace) -> int:
    recipe = _recipe(options)
    target = options.out / options.dataset
    if target.exists() and not (target / "dataset_info.json").is_file():
        raise UserError(f"--out: {target} holds something other than a prepared dataset; choose another folder")
    training = SandboxConfig()  # solutions have the limits that they will have in training
    limits = Limits(call_seconds=training.call_seconds, memory_mb=training.memory_mb)
    with progress_bar("solutions checked") as progress:
        try:
            with naming(options.out):
                path, manifest = prepare(
                    recipe, options.out, lambda packages: SandboxPool(preload=packages, limits=limits), progress
                )
        except ValueError as error:
            raise UserError(str(error) if options.source is None else f"--source: {error}") from error
    document = asdict(manifest)
    if options.json:
        print(json.dumps({"path": str(path)} | document))
        return DONE
    print(
        json.dumps({key: value for key, value in document.items() if key not in ("refused", "dropped_tests")}, indent=2)
    )
    if manifest.published is not None:
        kept = counted(sum(manifest.kept.values()), "question")
        print(f"codea1: {kept}; the paper trains on {manifest.published:,}", file=sys.stderr)
    print(f"codea1: written to {path}; manifest.json there gives each refused row its reason", file=sys.stderr)
    return DONE


def _recipe(options: argparse.Namespace) -> Recipe:
    recipe = RECIPES[options.dataset]
    if options.source is not None:
        recipe = replace(recipe, source=options.source, against=())
    if not recipe.source:
        raise UserError(f"--source: {options.dataset} is made from files; name them, or a dataset of the Hub")
    if options.difficulty is not None:
        recipe = replace(recipe, difficulties=tuple(options.difficulty))
    return recipe if options.against is None else replace(recipe, against=tuple(options.against))


def _validate(options: argparse.Namespace) -> int:
    try:
        with SandboxPool(preload=PACKAGES) as pool:
            report = find_faults(options.file, pool)
    except ValueError as error:
        raise UserError(str(error)) from error
    if not (report.problems or report.unsolved or report.faults):
        raise UserError(f"{options.file}: the file is empty")
    if options.json:
        document = {"problems": report.problems, "unsolved": report.unsolved}
        document |= {"faults": [vars(fault) for fault in report.faults]}
        dropped = [vars(test) for test in report.dropped]
        print(json.dumps({"file": str(options.file), **document, "dropped_tests": dropped}))
    else:
        for fault in sorted((*report.faults, *report.dropped), key=lambda fault: fault.line):
            print(f"{options.file}:{fault.line}: {f'{fault.id}: ' if fault.id else ''}{fault.reason}")
        counts = [counted(report.problems, "good problem"), counted(len(report.faults), "fault")]
        if report.unsolved:
            counts = [f"{report.unsolved} to evaluate on", f"{report.problems or 'none'} to train on", *counts[1:]]
        if report.dropped:
            counts.append(f"{counted(len(report.dropped), 'test')} dropped")
        print(", ".join(counts))
    return BAD_INPUT if report.faults else DONE
