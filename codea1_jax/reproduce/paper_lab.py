"""The paper's models and benchmarks: the presets as published, and the evaluations of its tables."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from codea1_jax.config import Config, load
from codea1_jax.config.presets import PAPER
from codea1_jax.reproduce.commands import Command, Needs, Words, evaluate, train
from codea1_jax.reproduce.experiments import Figure, Model, trained
from codea1_jax.reproduce.published import Published

# Benchmarks of programs, and of tests: by what `codea1 eval` calls them, their columns.
BIGCODEBENCH = "bigcodebench"
PROGRAMS = {"humanevalplus": "HumanEval+", "mbppplus": "MBPP+", BIGCODEBENCH: "BigCodeBench"}
FUNCTIONS = "ult"
TESTS = {"pass@5": "pass_at_5", "mut@5": "mut_at_5", "Mul": "mul"}
MEAN = "mean"  # of the benchmarks of programs
COLUMNS = {
    "code": (*PROGRAMS.values(), MEAN),
    "tests": tuple(TESTS),
    "alpha": (*PROGRAMS.values(), *TESTS),
    "components": (*PROGRAMS.values(), *TESTS),
    "static": (*PROGRAMS.values(), MEAN),
    "collaboration": (*PROGRAMS.values(), MEAN),
}

KODCODE = "kodcode"
# Where the benchmarks are read from unless `--data` says otherwise. UnLeakedTestBench is not on the Hub.
PLACES = {
    "humanevalplus": "evalplus/humanevalplus",
    "mbppplus": "evalplus/mbppplus",
    BIGCODEBENCH: "bigcode/bigcodebench/data/v0.1.4-*",
    FUNCTIONS: "ult.json",
}

SAMPLES, LONGEST = 32, 4096  # programs of a problem, and the tokens of the longest response
LONGEST_OF = {BIGCODEBENCH: 2048}


@dataclass(frozen=True)
class PaperLab:
    """One of the paper's models.

    model: the presets' name of it; hardware: the kind appended to a preset's name; "" for none. folder: of runs.
    weights: what training starts from; data: what it trains on, with the commands that make it. places: of benchmarks,
    by name; those that are not there are not measured. environment: with what BigCodeBench's programs import.
    as_paper: by the original's choices: presets, reading and limits. templates: a file of prompts, in place of ours.
    overrides: of every preset. samples, longest: programs of a problem, and tokens of a response.
    """

    model: str
    hardware: str
    folder: Path
    weights: str
    data: str
    preparing_data: tuple[Command, ...]
    places: Mapping[str, str]
    overrides: Words = ()
    samples: int = SAMPLES
    longest: int = LONGEST
    environment: Path | None = None
    as_paper: bool = True
    templates: str | None = None

    def shown(self, papers: Mapping[str, Published]) -> dict[str, Published]:
        return dict(papers)

    def columns(self, table: str) -> tuple[str, ...]:
        return COLUMNS.get(table, ())

    def rules(self, columns: Collection[str]) -> str:
        reading, limits = (PAPER, f"{PAPER} (10 s, after training 20 s)") if self.as_paper else ("commonmark", "ours")
        presets = "MODEL/METHOD_paper" if self.as_paper else "MODEL/METHOD"
        return (
            f"Presets: {presets}; prompts: {self.templates or 'ours'}; reading: {reading}; limits of programs: "
            f"{limits}; protocol of tests: paper. docs/fidelity.md compares them with the original's."
        )

    def train(self, method: str, seed: int, overrides: Words, needs: Needs) -> Model:
        if method == "base":
            return Model(self.weights, (), None)
        preset = f"{self.model}/{method}_{PAPER}" if self.as_paper else f"{self.model}/{method}"
        directory = self.folder / f"{method}-seed{seed}"
        run = train(
            directory,
            f"{preset}_{self.hardware}" if self.hardware else preset,
            (f"run.seed={seed}", *self.overrides, *self._asked("prompts.templates="), *overrides),
            (*self.preparing_data, *needs),
        )
        return Model(str(directory), (run,), run)

    def suites(self, author: str, seed: int) -> Command:
        model = trained(self, author, seed)
        needs = (*self.preparing_data, *model.needs)
        source = ("--model", model.place)
        return self._evaluate("suites", f"suites-{author}-seed{seed}", self.data, KODCODE, source, needs, seed)

    def figures(self, table: str, methods: tuple[str, ...], seed: int) -> tuple[tuple[Figure, ...], ...]:
        models = tuple(trained(self, method, seed) for method in methods)
        found: dict[str, tuple[Figure, ...]] = {
            column: (self._programs(benchmark, methods, models, seed),)
            for benchmark, column in PROGRAMS.items()
            if benchmark in self.places
        }
        if len(found) == len(PROGRAMS):
            found[MEAN] = tuple(figure for column in found.values() for figure in column)
        if FUNCTIONS in self.places and len(models) == 1:
            measuring = self._tests(methods[0], models[0], seed)
            found |= {column: (Figure(measuring, key),) for column, key in TESTS.items()}
        return tuple(found.get(column, ()) for column in COLUMNS.get(table, ()))

    def _programs(self, benchmark: str, methods: tuple[str, ...], models: tuple[Model, ...], seed: int) -> Figure:
        """One model's programs; of two, the programs of the first that pass most tests of the second."""
        needs = tuple(dict.fromkeys(needed for model in models for needed in model.needs))
        kind, key = ("code", "avg_at_n") if len(models) == 1 else ("collaboration", "best_of_n")
        named = zip(("--model", "--test-model"), models, strict=False)
        source = (*(word for option, model in named for word in (option, model.place)), "--n", str(self.samples))
        source += self._limits(methods)
        # Two benchmarks in one file are one evaluation.
        first = next(name for name in PROGRAMS if self.places.get(name) == self.places[benchmark])
        name = "-".join((*methods, first, f"seed{seed}"))
        command = self._evaluate(kind, name, self.places[benchmark], first, source, needs, seed)
        return Figure(command, key, benchmark)

    def _asked(self, option: str) -> tuple[str, ...]:
        return () if self.templates is None else (f"{option}{self.templates}",)

    def _limits(self, methods: tuple[str, ...]) -> tuple[str, ...]:
        """The original's trained models are those of a last step, whose programs had more time."""
        return ("--limits", PAPER if methods == ("base",) else f"{PAPER}_last") if self.as_paper else ()

    def _tests(self, method: str, model: Model, seed: int) -> Command:
        source = ("--model", model.place, "--protocol", "paper")
        name = f"{method}-{FUNCTIONS}-seed{seed}"
        return self._evaluate("tests", name, self.places[FUNCTIONS], FUNCTIONS, source, model.needs, seed)

    def _evaluate(
        self, kind: str, name: str, data: str, benchmark: str, source: Words, needs: Needs, seed: int
    ) -> Command:
        longest = min(self.longest, LONGEST_OF.get(benchmark, LONGEST))
        limits = () if longest == LONGEST else ("--max-tokens", str(longest))
        reading = ("--reading", PAPER) if self.as_paper else ()
        options = (*source, "--seed", str(seed), *limits, *reading, *self._asked("--templates="))
        if benchmark == BIGCODEBENCH and self.environment is not None:
            options += ("--environment", str(self.environment))
        return evaluate(self.folder / name, kind, data, options, needs)


def pretrained(model: str) -> str:
    weights = load(Config, f"{model}/base").model.pretrained
    assert weights is not None  # the paper's models are pretrained
    return weights
