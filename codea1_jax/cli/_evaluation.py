"""One evaluating command: its data, who answers, the judge, the folder that it resumes from, and its results."""

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from codea1_jax.cli._arguments import blamed_on
from codea1_jax.cli._output import say
from codea1_jax.cli._runtime import BAD_INPUT, DONE, keep_compiled_programs
from codea1_jax.common.console import print_table, progress_bar, results_table
from codea1_jax.common.errors import UserError
from codea1_jax.common.words import counted
from codea1_jax.config import Role, read_templates
from codea1_jax.evals import pytest_jobs
from codea1_jax.evals.journal import Journal
from codea1_jax.evals.samples import JournaledPlayer, ReadSamples, references
from codea1_jax.game.players import Player
from codea1_jax.rollout import Sampling
from codea1_jax.run.telemetry import versions
from codea1_jax.runtime.devices import start_devices
from codea1_jax.training.answers import make_player, model_identity
from data_pipeline import Loaded, benchmark, load
from data_pipeline.hub import local_path
from data_pipeline.rows import files
from sandbox import SandboxPool
from sandbox.host.doctor import try_out

REFERENCE = "reference"
CHOSEN_BY = ("difficulty", "since", "until")  # options that choose problems of the data


class Drawing(NamedTuple):
    temperature: float = 0.7
    top_p: float = 0.95
    max_tokens: int = 4096


# By `eval tests --protocol`: how the authors of Code-A1 draw tests, and how a run does.
PROTOCOLS = {"paper": Drawing(0.0, 0.95, 4096), "heldout": Drawing()}


class Evaluation:
    def __init__(self, options: argparse.Namespace, kind: str) -> None:
        """Reads the data and opens the folder. Raises UserError for data or a folder that cannot be used."""
        self._started = time.perf_counter()
        self._options, self._kind = options, kind
        default = PROTOCOLS.get(getattr(options, "protocol", ""), Drawing())
        for name, value in default._asdict().items():
            if getattr(options, name) is None:
                setattr(options, name, value)
        say(f"codea1: reading {options.data}")  # a benchmark's inputs take seconds
        loaded = self._loaded = load_data(options.data, *(getattr(options, name, None) for name in CHOSEN_BY))
        self.problems = loaded.problems
        self._config = _describe(options, kind)
        digest = hashlib.sha256(json.dumps(self._config, sort_keys=True).encode()).hexdigest()[:12]

        with blamed_on("--out"):
            self.journal = Journal(options.out or Path("runs", f"eval-{kind}-{digest}"), self._config)
        self._unknown: list[str] = []
        self._drawn: dict[str, JournaledPlayer] = {}  # by the role that draws

    def player(self, role: Role, read: ReadSamples, prefix: str = "") -> Player:
        """Where samples come from: a file, which `read` reads, the data itself, or a model, of a run that of `role`.

        prefix: of the options that name it. Raises UserError.
        """
        options, samples = self._options, getattr(self._options, f"{prefix}samples")
        if samples == REFERENCE:
            return references(self.problems)
        if samples:
            with blamed_on(f"--{prefix.replace('_', '-')}samples"):
                player, unknown = read(samples, self.problems)
            self._unknown += unknown
            return player
        with progress_bar(f"eval {self._kind}"):
            player = self._drawn[role] = JournaledPlayer(draw_from(options, role, prefix), self.journal)
        return player

    @contextmanager
    def judging(self, unit: str) -> Iterator[tuple[SandboxPool, Callable[..., None]]]:
        """The judge, and what shows progress: (done, total, of what; else of `unit`)."""
        with make_pool(self._options) as judge, progress_bar(f"eval {self._kind}") as show:

            def progress(done: int, total: int, of_what: str = unit) -> None:
                show(done, total, of_what)

            yield judge, progress

    def report(self, results: Mapping[str, Any]) -> int:
        whole = {
            **results,
            "unknown_samples": self._unknown,
            "refused": {refusal.id: refusal.reason for refusal in self._loaded.refused},
            "dropped_tests": {test.id: test.reason for test in self._loaded.dropped},
            "sampling": {role: player.figures for role, player in self._drawn.items()},
            "config": self._config,
            "versions": versions(),
            "seconds": round(time.perf_counter() - self._started, 1),
        }
        self.journal.finish(whole)
        measured = any(figures.get("sound", figures["problems"]) for figures in whole["benchmarks"].values())
        if self._options.json:
            print(json.dumps(whole))
        else:
            _print_results(whole, measured=measured)
            if measured:
                say(f"codea1: everything is in {self.journal.path}")
            else:
                say("codea1: nothing was measured: no problem of --data is left")
        return DONE if measured else BAD_INPUT


def draw_from(options: argparse.Namespace, role: Role, prefix: str = "") -> Player:
    """The model that options name, of a run that of `role`. prefix: of these options. Raises UserError."""
    start_devices()
    keep_compiled_programs()
    try:
        sampling = Sampling(options.max_tokens, options.temperature, options.top_p)
    except ValueError as error:
        raise UserError(f"--{error}") from error
    key = os.environ.get("OPENAI_API_KEY", "")
    model, served = getattr(options, f"{prefix}model"), getattr(options, f"{prefix}served_model")
    templates = None if options.templates is None else read_templates(options.templates)
    with blamed_on(f"--{prefix.replace('_', '-')}model"):
        return make_player(model, role, served, key, sampling, options.seed, options.reading, templates, options.dtype)


def load_data(
    source: str, difficulty: Sequence[str] | None = None, since: date | None = None, until: date | None = None
) -> Loaded:
    """The problems to measure by: those of some difficulties, or published within some days (both included).

    Raises UserError if there is none.
    """
    with blamed_on("--data"):
        loaded = load(str(local_path(source)), difficulty or ())
    days = (str(since or date.min), str(until or date.max))
    if since or until:
        chosen = tuple(p for p in loaded.problems if p.date and days[0] <= p.date <= days[1])
        loaded = replace(loaded, problems=chosen)
    if not loaded.problems:
        reasons = "; ".join(f"{refusal.id}: {refusal.reason}" for refusal in loaded.refused[:3])
        raise UserError(f"--data: {source} holds no problem that can be used ({reasons})")
    return loaded


def make_pool(options: argparse.Namespace) -> SandboxPool:
    """The jails, with what the benchmarks' checks import.

    Raises UserError if --environment has no packages, and SandboxUnavailable if the judge fails a right program.
    """
    packages = None
    if options.environment is not None:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = options.environment / "lib" / version / "site-packages"
        if not packages.is_dir():
            raise UserError(f"--environment: {packages} does not exist; make a virtual environment of {version} there")
    preload = pytest_jobs.PACKAGES if getattr(options, "protocol", None) == "paper" else benchmark.PACKAGES
    with ExitStack() as stack:
        pool = stack.enter_context(SandboxPool(options.workers, preload=preload, packages=packages))
        try_out(pool)
        stack.pop_all()
    return pool


def _describe(options: argparse.Namespace, kind: str) -> dict[str, Any]:
    """What figures depend on; an evaluation is only ever resumed with the same."""
    config: dict[str, Any] = {"command": f"eval {kind}", "data": options.data}
    config |= {name: str(getattr(options, name)) for name in CHOSEN_BY if getattr(options, name, None)}
    config |= {name: getattr(options, name) for name in ("protocol", "limits") if name in options}
    if options.environment is not None:
        config["environment"] = str(options.environment)
    config["data_sha256"] = _sha256(*files(local_path(options.data)))
    sampled = False
    for prefix in ("", "test_"):
        if f"{prefix}samples" not in options:
            continue
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


def _print_results(results: Mapping[str, Any], *, measured: bool) -> None:
    if measured:
        protocol = results["config"].get("protocol")
        named = {f"{name}, protocol {protocol}" if protocol else name: v for name, v in results["benchmarks"].items()}
        print_table(results_table(named))
        sys.stdout.flush()
    verbs = {"refused": "not read", "dropped_tests": "a test was left out"}
    for name in ("unsound", "missing_dependencies", *verbs):
        for task, reason in results.get(name, {}).items():
            say(f"{verbs.get(name, 'cannot be judged')}: {task}: {reason}")
    if packages := results.get("missing_packages"):
        listed = ", ".join(f"{name} ({counted(count, 'problem')})" for name, count in packages.items())
        say(f"the judge's Python lacks: {listed}; see --environment")
    for role, drawn in results["sampling"].items():
        say(f"{role}: {_drawn_in_words(drawn, results['config']['max_tokens'])}")
    for name in ("without_samples", "unknown_samples"):
        if results.get(name):
            say(f"{name.replace('_', ' ')}: {', '.join(results[name])}")


def _drawn_in_words(drawn: Mapping[str, float], longest: int) -> str:
    words = counted(int(drawn["responses"]), "response")
    if "tokens" in drawn:
        words += f" of {drawn['tokens']} tokens, {drawn['tokens_per_second']:.1f} a second"
    if cut := drawn.get("cut_off"):
        words += f"; {cut} were cut off at --max-tokens={longest}" + ("; raise it" if cut == drawn["responses"] else "")
    return words


def _sha256(*paths: Path) -> str:
    digest = hashlib.sha256()
    try:
        for path in paths:
            digest.update(path.read_bytes())
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from error
    return digest.hexdigest()
