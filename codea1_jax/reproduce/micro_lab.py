"""The micro world: every method trains for the same steps, and is measured on the same held-out questions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from codea1_jax.reproduce.commands import Command, Needs, Words, evaluate, train
from codea1_jax.reproduce.experiments import Figure, Model, trained
from codea1_jax.reproduce.published import Published
from configs import MICROS
from data_pipeline import micro

CODE = (("avg@8", "avg_at_n"), ("pass@8", "pass_at_8"))
TESTS = (("pass@5", "pass_at_5"), ("mut@5", "mut_at_5"), ("Mul", "mul"))
HUNT = (("validity", "test_validity"), ("kill rate", "kill_rate"))
HARD, DISTINCT = ("hard mut@5", "hard_mut_at_5"), ("distinct tests", "distinct_tests")
EVERYTHING = (*CODE, *TESTS, *HUNT, HARD)
COLUMNS = {
    "code": CODE,
    "tests": (*TESTS, *HUNT),
    "alpha": (*CODE, *TESTS),
    "components": EVERYTHING,
    "static": CODE,
    "collaboration": (("one program", "avg_at_n"), ("the chosen one", "best_of_n")),
    "rewards": (*EVERYTHING, DISTINCT),
    "mechanisms": (CODE[0], HARD, ("trivial tests", "trivial_tests"), DISTINCT),
}
RULE = "pass@5, mut@5 and Mul are by the protocol heldout, which is ours: not to be compared with the paper's."
# More than the presets' (micro-hard's are as they are), since that leaves fewer programs to learn from and every method
# can only sharpen what the warm start has begun to learn.
START = ("warm_start.steps=1400", "warm_start.code_weight=4.0")
PROGRAMS = 8  # N of test-time collaboration


@dataclass(frozen=True)
class MicroLab:
    """The micro world's shared budget: every method trains for `steps` on the same questions, from the same start."""

    folder: Path
    steps: int = 40
    problems: int = 256
    heldout: int = 256
    model: str = MICROS[0]

    def shown(self, papers: Mapping[str, Published]) -> dict[str, Published]:
        """Without figures of tests; in the collaboration pairs of models alone, where one program is a column."""
        tables = {}
        for name, paper in papers.items():
            about = "held-out questions" if name in COLUMNS else "by training step"
            title = f"{paper.title.partition(',')[0]}, {about}"
            pairs = name == "collaboration"
            rows = {row: methods for row, methods in paper.rows.items() if len(methods) == 2 or not pairs}
            tables[name] = replace(paper.without([column for column, _ in TESTS]), title=title, rows=rows)
        return tables

    def columns(self, table: str) -> tuple[str, ...]:
        return tuple(title for title, _ in COLUMNS.get(table, ()))

    def rules(self, columns: Collection[str]) -> str:
        return RULE if "pass@5" in columns else ""

    def train(self, method: str, seed: int, overrides: Words, needs: Needs) -> Model:
        """A training run. Those of a seed wait for its base, which makes the warm start that they all begin with."""
        name = f"{method}-seed{seed}"
        if method == "base":
            overrides = (*overrides, "train.steps=0")
        else:
            needs = (*trained(self, "base", seed).needs, *needs)
        words = (*self._overrides(seed), *overrides)
        run = train(self.folder / name, f"{self.model}/{method}", words, needs)
        return Model(str(run.directory), (run,), run)

    def suites(self, author: str, seed: int) -> Command:
        writer = trained(self, author, seed)
        return self._evaluate("suites", f"suites-{author}-seed{seed}", self.train_file(seed), (writer,), ())

    def figures(self, table: str, methods: tuple[str, ...], seed: int) -> tuple[tuple[Figure, ...], ...]:
        models = tuple(trained(self, method, seed) for method in methods)
        if len(models) == 1:
            [measuring] = models[0].needs
        else:
            coder, tester = methods
            name, more = f"collaboration-{coder}-{tester}-seed{seed}", ("--n", str(PROGRAMS))
            measuring = self._evaluate("collaboration", name, self.heldout_file, models, more)
        return tuple((Figure(measuring, key),) for _, key in COLUMNS.get(table, ()))

    def train_file(self, seed: int) -> Path:
        return self.folder / f"train-seed{seed}.jsonl"

    @property
    def form(self) -> micro.Form:
        forms: dict[str, micro.Form] = dict(zip(MICROS, micro.FORMS.values(), strict=True))
        return forms[self.model]

    @property
    def heldout_file(self) -> Path:
        return self.folder / "heldout.jsonl"

    def _evaluate(self, kind: str, name: str, data: Path, models: tuple[Model, ...], more: Words) -> Command:
        named = zip(("--model", "--test-model"), models, strict=False)
        options = (*(word for option, model in named for word in (option, model.place)), *more, "--workers", "1")
        needs = tuple(dict.fromkeys(needed for model in models for needed in model.needs))
        return evaluate(self.folder / name, kind, str(data), options, needs)

    def _overrides(self, seed: int) -> tuple[str, ...]:
        return (
            f"run.seed={seed}",
            f"train.steps={self.steps}",
            # Static tests are not written for every question: a step must be less than what is left of a few.
            f"train.questions={max(1, min(16, self.problems // 4))}",
            f"data.problems={self.problems}",
            f"data.heldout_problems={self.heldout}",
            "warm_start.black_box=0.25",  # self-play is asked for tests without seeing a program
            *(() if self.form is micro.HARD else START),
            f"eval.every={self.steps}",
            f"checkpoint.every={self.steps}",
            "checkpoint.keep_last=1",
            "sandbox.workers=1",
        )
