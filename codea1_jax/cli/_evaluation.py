"""What the evaluating commands share: options, data, sources of samples, and results."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from codea1_jax.cli._arguments import add_judge
from codea1_jax.cli._compiled_programs import keep_compiled_programs
from codea1_jax.cli._runtime import BAD_INPUT, DONE
from codea1_jax.common.errors import UserError
from codea1_jax.common.words import counted

if TYPE_CHECKING:
    from codea1_jax.config import Role
    from codea1_jax.evals.answers.samples import ReadSamples
    from codea1_jax.game.players import Player
    from data_pipeline import Loaded, Problem
    from sandbox import SandboxPool

REFERENCE = "reference"


class Drawing(NamedTuple):
    """How samples are drawn."""

    temperature: float = 0.7
    top_p: float = 0.95
    max_tokens: int = 4096


# UnLeakedTestBench's own, and that of the authors of Code-A1.
CONVERSATIONS = {"official": Drawing(0.0, 1.0, 1024), "paper": Drawing(0.0, 0.95, 4096)}


def add_common(parser: argparse.ArgumentParser) -> None:
    """Data, sampling, and where results go."""
    parser.add_argument("--data", required=True, help="file, folder, or dataset of the Hub")
    others = CONVERSATIONS if parser.prog.endswith(" tests") else {}
    for name, kind in zip(Drawing._fields, (float, float, int), strict=True):
        unless = (f"with --protocol {protocol}: {getattr(other, name)}" for protocol, other in others.items())
        shown = "; ".join([f"default: {getattr(Drawing(), name)}", *unless])
        shown = f"longest response; {shown}" if name == "max_tokens" else shown
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=shown)
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument(
        "--reading",
        choices=["commonmark", "paper"],
        help="how a program is read from a response; default: as in the run, else commonmark",
    )
    parser.add_argument(
        "--templates", metavar="FILE", help="YAML of prompts in place of ours; default: as in the run, else ours"
    )
    parser.add_argument(
        "--dtype",
        choices=["bfloat16", "float16", "float32"],
        help="in which a model of a run or a directory computes (the authors' tests are float16's); "
        "default: bfloat16, on a CPU float32",
    )
    add_judge(parser)
    parser.add_argument("--out", type=Path, help="folder of the evaluation, to resume it too; default: below runs/")
    parser.add_argument("--json", action="store_true", help="print nothing but the results, on one line")


def add_source(parser: argparse.ArgumentParser, samples: str, prefix: str = "") -> None:
    """A file of samples, or a model to draw them from; with a prefix, of another role."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(f"--{prefix}samples", metavar="FILE", help=samples)
    source.add_argument(
        f"--{prefix}model", help="a Hugging Face directory, a run's directory, a Hub id, or http://host:port"
    )
    parser.add_argument(f"--{prefix}served-model", help="which model of an endpoint; default: the first it serves")


def set_drawing(options: argparse.Namespace) -> None:
    """Gives the options of sampling that were left out their defaults."""
    default = CONVERSATIONS.get(getattr(options, "protocol", ""), Drawing())
    for name, value in default._asdict().items():
        if getattr(options, name) is None:
            setattr(options, name, value)


def load_data(source: str) -> Loaded:
    """The problems to measure by. Raises UserError if there is none."""
    from data_pipeline import load
    from data_pipeline.hub import local_path

    try:
        loaded = load(str(local_path(source)), "all")
    except ValueError as error:
        raise UserError(f"--data: {error}") from error
    if not loaded.problems:
        reasons = "; ".join(f"{refusal.id}: {refusal.reason}" for refusal in loaded.refused[:3])
        raise UserError(f"--data: {source} holds no problem that can be used ({reasons})")
    return loaded


def make_pool(options: argparse.Namespace) -> SandboxPool:
    """The jails, with what the benchmarks' checks import. Raises UserError if --environment has no packages."""
    from codea1_jax.evals.scores import benchmark, pytest_jobs
    from sandbox import SandboxPool

    preload = pytest_jobs.PACKAGES if getattr(options, "protocol", None) in CONVERSATIONS else benchmark.PACKAGES
    if options.environment is None:
        return _working(SandboxPool(options.workers, preload=preload))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = options.environment / "lib" / version / "site-packages"
    if not packages.is_dir():
        raise UserError(f"--environment: {packages} does not exist; make a virtual environment of {version} there")
    return _working(SandboxPool(options.workers, preload=preload, packages=packages))


def _working(pool: SandboxPool) -> SandboxPool:
    """The pool. Raises SandboxUnavailable if it fails a right program."""
    from sandbox.host.doctor import try_out

    with ExitStack() as stack:
        try_out(stack.enter_context(pool))
        stack.pop_all()
    return pool


def describe(options: argparse.Namespace, command: str, prefixes: Sequence[str] = ("",)) -> dict[str, Any]:
    """What figures depend on; an evaluation is only ever resumed with the same."""
    from codea1_jax.config import read_templates
    from codea1_jax.training.answers import model_identity
    from data_pipeline.hub import local_path
    from data_pipeline.rows import files

    config: dict[str, Any] = {"command": f"eval {command}", "data": options.data}
    config |= {name: getattr(options, name) for name in ("protocol", "limits", "wrong_answers") if name in options}
    if getattr(options, "sample", None) is not None:
        config |= {"sample": str(options.sample), "sample_sha256": _sha256(options.sample)}
    if options.environment is not None:
        config["environment"] = str(options.environment)
    config["data_sha256"] = _sha256(*files(local_path(options.data)))
    sampled = False
    for prefix in prefixes:
        samples = getattr(options, f"{prefix}samples")
        if samples is None:
            sampled = True
            config |= {name: getattr(options, name) for name in (f"{prefix}model", f"{prefix}served_model")}
            config[f"{prefix}model_identity"] = model_identity(config[f"{prefix}model"])
        else:
            config[f"{prefix}samples"] = samples
            if samples != REFERENCE:
                config[f"{prefix}samples_sha256"] = _sha256(Path(samples))
    if sampled:
        names = ("n", "temperature", "top_p", "max_tokens", "seed", "reading", "dtype")
        config |= {name: getattr(options, name) for name in names if name in options}
        if options.templates is not None:
            config["templates"] = read_templates(options.templates).model_dump(mode="json", exclude_none=True)
    return config


def folder_of(options: argparse.Namespace, config: Mapping[str, Any]) -> Path:
    """Where the evaluation is kept: asked for, or named by what it is."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]
    return options.out or Path("runs", f"{config['command'].replace(' ', '-')}-{digest}")


def make_source(
    options: argparse.Namespace, problems: Sequence[Problem], read: ReadSamples, role: Role, prefix: str = ""
) -> tuple[Player, tuple[str, ...]]:
    """Where samples come from, and the tasks of a file (which `read` reads) that the data does not have.

    `role` is the policy taken of a run's two. Raises UserError.
    """
    from codea1_jax.evals.answers.samples import references

    samples = getattr(options, f"{prefix}samples")
    if samples == REFERENCE:
        return references(problems), ()
    if samples:
        return read(samples, problems)
    from codea1_jax.config import read_templates
    from codea1_jax.hosts.devices import start_devices
    from codea1_jax.rollout import Sampling
    from codea1_jax.training.answers import make_player

    start_devices()
    keep_compiled_programs()
    try:
        sampling = Sampling(options.max_tokens, options.temperature, options.top_p)
    except ValueError as error:
        raise UserError(f"--{error}") from error
    key = os.environ.get("OPENAI_API_KEY", "")
    model, served = getattr(options, f"{prefix}model"), getattr(options, f"{prefix}served_model")
    templates = None if options.templates is None else read_templates(options.templates)
    return make_player(model, role, served, key, sampling, options.seed, options.reading, templates, options.dtype), ()


def account(loaded: Loaded, config: Mapping[str, Any], started: float) -> dict[str, Any]:
    """What results carry apart from metrics."""
    from codea1_jax.run.telemetry import versions

    return {
        "refused": {refusal.id: refusal.reason for refusal in loaded.refused},
        "dropped_tests": {test.id: test.reason for test in loaded.dropped},
        "config": dict(config),
        "versions": versions(),
        "seconds": round(time.perf_counter() - started, 1),
    }


def print_results(results: Mapping[str, Any], folder: Path, *, as_json: bool) -> int:
    """The figures, and by name everything that was not judged."""
    from codea1_jax.common.console import print_table
    from codea1_jax.evals.commands.audit import audit_lines
    from codea1_jax.evals.commands.tables import results_table

    measured = any(figures.get("sound", figures["problems"]) for figures in results["benchmarks"].values())
    if as_json:
        print(json.dumps(results))
        return DONE if measured else BAD_INPUT
    if measured:
        protocol = results.get("config", {}).get("protocol")
        named = {f"{name}, protocol {protocol}" if protocol else name: v for name, v in results["benchmarks"].items()}
        print_table(results_table(named))
        sys.stdout.flush()
    if audited := results.get("audited"):
        print("\n".join(audit_lines(audited, results["passed_by_trivial"])), file=sys.stderr)
    verbs = {"refused": "not read", "dropped_tests": "a test was left out"}
    for name in ("unsound", "missing_dependencies", *verbs):
        for task, reason in results.get(name, {}).items():
            print(f"{verbs.get(name, 'cannot be judged')}: {task}: {reason}", file=sys.stderr)
    if packages := results.get("missing_packages"):
        listed = ", ".join(f"{name} ({counted(count, 'problem')})" for name, count in packages.items())
        print(f"the judge's Python lacks: {listed}; see --environment", file=sys.stderr)
    for name in ("without_samples", "unknown_samples"):
        if results.get(name):
            print(f"{name.replace('_', ' ')}: {', '.join(results[name])}", file=sys.stderr)
    if not measured:
        print("codea1: nothing was measured: no problem of --data is left", file=sys.stderr)
        return BAD_INPUT
    print(f"codea1: everything is in {folder}", file=sys.stderr)
    return DONE


def _sha256(*paths: Path) -> str:
    digest = hashlib.sha256()
    try:
        for path in paths:
            digest.update(path.read_bytes())
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from error
    return digest.hexdigest()
