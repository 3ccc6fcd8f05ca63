"""`codea1 eval`: measure programs and tests on the benchmarks."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codea1_jax.cli.progress import progress_bar
from codea1_jax.cli.runtime import DONE, keep_compiled_programs
from codea1_jax.run.config import ConfigError

if TYPE_CHECKING:
    from codea1_jax.cli.arguments import Commands
    from codea1_jax.evals.generators import Generator
    from data_pipeline import Loaded, Problem

REFERENCE = "reference"
JAILED_PACKAGES = ("numpy",)  # which the checks of evalplus import


def add(commands: Commands) -> None:
    """Registers the commands."""
    kinds = commands.add_parser("eval", help="measure programs and tests on benchmarks")
    kinds = kinds.add_subparsers(required=True, metavar="COMMAND")
    code = kinds.add_parser("code", help="programs: HumanEval+, MBPP+, BigCodeBench, or any problems with tests")
    _add_common(code, "programs: a file of evalplus' or bigcodebench's form, or 'reference' for the data's own")
    code.add_argument("--n", type=int, default=32, help="programs drawn per problem; default: %(default)s")
    code.set_defaults(run=_code)


def _add_common(parser: argparse.ArgumentParser, samples: str) -> None:
    parser.add_argument("--data", required=True, help="file, folder, or dataset of the Hub")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--samples", metavar="FILE", help=samples)
    source.add_argument("--model", help="a Hugging Face directory, a run's directory, a Hub id, or http://host:port")
    parser.add_argument("--served-model", help="of an endpoint; default: the first it serves")
    parser.add_argument("--temperature", type=float, default=0.7, help="default: %(default)s")
    parser.add_argument("--top-p", type=float, default=0.95, help="default: %(default)s")
    parser.add_argument("--max-tokens", type=int, default=4096, help="longest response; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--workers", type=int, help="jails; default: one per core")
    parser.add_argument("--out", type=Path, help="folder of the evaluation, to resume it too; default: below runs/")
    parser.add_argument("--json", action="store_true", help="print nothing but the results, on one line")


def _code(options: argparse.Namespace) -> int:
    from codea1_jax.evals.benchmark import make_benchmark
    from codea1_jax.evals.journal import Journal
    from codea1_jax.evals.run_code import evaluate_code
    from sandbox import SandboxPool

    started = time.perf_counter()
    loaded = _load(options.data)
    config = _config(options, "code") | ({"n": options.n} if options.model else {})
    journal = Journal(_folder(options, config), config)
    generator, unknown = _generator(options, loaded.problems)
    with SandboxPool(options.workers, preload=JAILED_PACKAGES) as pool, progress_bar("problems") as progress:
        benchmark = make_benchmark(loaded.problems, pool)
        results = evaluate_code(benchmark, generator, options.n, pool, journal, progress)
    results |= {"unknown_samples": list(unknown)} | _account(loaded, config, started)
    journal.finish(results)
    return _print(results, journal.path, as_json=options.json)


def _load(source: str) -> Loaded:
    from data_pipeline import load
    from data_pipeline.hub import local_path

    try:
        loaded = load(str(local_path(source)), "all")
    except ValueError as error:
        raise ConfigError(f"--data: {error}") from error
    if not loaded.problems:
        reasons = "; ".join(f"{refusal.id}: {refusal.reason}" for refusal in loaded.refused[:3])
        raise ConfigError(f"--data: {source} holds no problem that can be used ({reasons})")
    return loaded


def _config(options: argparse.Namespace, kind: str) -> dict[str, Any]:
    """What the figures depend on; an evaluation is only ever resumed with the same."""
    from data_pipeline.hub import local_path
    from data_pipeline.rows import files

    config: dict[str, Any] = {"command": f"eval {kind}", "data": options.data}
    config["data_sha256"] = _sha256(*files(local_path(options.data)))
    if options.samples:
        config["samples"] = options.samples
        if options.samples != REFERENCE:
            config["samples_sha256"] = _sha256(Path(options.samples))
        return config
    names = ("model", "served_model", "temperature", "top_p", "max_tokens", "seed")
    return config | {name: getattr(options, name) for name in names}


def _sha256(*paths: Path) -> str:
    digest = hashlib.sha256()
    try:
        for path in paths:
            digest.update(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from error
    return digest.hexdigest()


def _folder(options: argparse.Namespace, config: Mapping[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]
    return options.out or Path("runs", f"{config['command'].replace(' ', '-')}-{digest}")


def _generator(options: argparse.Namespace, problems: tuple[Problem, ...]) -> tuple[Generator, tuple[str, ...]]:
    """Where samples come from, and the tasks of a file that the data does not have."""
    from codea1_jax.evals.generators import Recorded
    from codea1_jax.evals.samples import read_programs

    if options.samples == REFERENCE:
        return Recorded(programs_of={p.id: (p.solution.removeprefix(p.preamble),) for p in problems}), ()
    if options.samples:
        samples = read_programs(options.samples, problems)
        return Recorded(programs_of=samples.of), samples.unknown
    from codea1_jax.assemble.generators import make_generator
    from codea1_jax.rollout import Sampling

    keep_compiled_programs()
    try:
        sampling = Sampling(options.max_tokens, options.temperature, options.top_p)
    except ValueError as error:
        raise ConfigError(f"--{error}") from error
    key = os.environ.get("OPENAI_API_KEY", "")
    return make_generator(options.model, options.served_model, key, sampling, options.seed), ()


def _account(loaded: Loaded, config: Mapping[str, Any], started: float) -> dict[str, Any]:
    """What results carry beside figures."""
    from codea1_jax.run.telemetry import versions

    return {
        "refused": {refusal.id: refusal.reason for refusal in loaded.refused},
        "config": dict(config),
        "versions": versions(),
        "seconds": round(time.perf_counter() - started, 1),
    }


def _print(results: Mapping[str, Any], folder: Path, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(results))
        return DONE
    from rich.console import Console

    from codea1_jax.evals.tables import results_table

    Console().print(results_table(results["benchmarks"]))
    for name in ("unsound", "missing_dependencies", "refused"):
        for task, reason in results[name].items():
            print(f"left out: {task}: {reason}", file=sys.stderr)
    for name in ("without_samples", "unknown_samples"):
        if results[name]:
            print(f"{name.replace('_', ' ')}: {', '.join(results[name])}", file=sys.stderr)
    print(f"codea1: everything is in {folder}", file=sys.stderr)
    return DONE
