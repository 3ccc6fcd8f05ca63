"""The tables: for every row and seed, the command whose figures it shows.

Rows share runs: α = 0.5 is a1, and human golden tests are golden. Every run of a seed waits for that seed's base, which
makes the warm start they all begin with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from codea1_jax.reproduce.commands import Command
from codea1_jax.reproduce.published import Published, published

SUMMARY = "summary.json"

AUTHORS = {"static_base": "base", "static_sft": "sft", "static_a1": "a1"}  # whose tests supervise these methods
STARTS = {"a1_from_sft": "sft"}  # whose Test LLM these methods start from

CODE = (("avg@8", "avg_at_n"), ("pass@8", "pass_at_8"))
TESTS = (("pass@5", "pass_at_5"), ("mut@5", "mut_at_5"), ("Mul", "mul"))
HUNT = (("validity", "test_validity"), ("kill rate", "kill_rate"))
CHOSEN = (("one program", "avg_at_n"), ("the chosen one", "best_of_n"))
DYNAMICS = (
    ("code reward", "code/reward"),
    ("test reward", "test/reward"),
    ("validity", "test/validity"),
    ("pass rate", "pass_rate"),
    ("tokens, Code LLM (self_play: both roles)", "code/response_tokens"),
    ("tokens, Test LLM", "test/response_tokens"),
)
COLUMNS = {
    "code": CODE,
    "tests": (*TESTS, *HUNT),
    "alpha": (*CODE, *TESTS),
    "components": (*CODE, *TESTS, *HUNT),
    "dynamics": DYNAMICS,
    "static": CODE,
    "collaboration": CHOSEN,
}


@dataclass(frozen=True)
class MicroBudget:
    """The micro world's shared budget: every method trains for `steps` on the same questions, from the same start.

    black_box: share of the warm start's transcripts that ask for tests without showing a program, so that self-play
    knows how it is asked. warm_start_steps, code_weight: more than the presets', since that leaves fewer programs to
    learn from and every method can only sharpen what the warm start has begun to learn. programs: N of test-time
    collaboration.
    """

    folder: Path
    steps: int = 40
    problems: int = 256
    heldout: int = 256
    black_box: float = 0.25
    warm_start_steps: int = 1400
    code_weight: float = 4.0
    programs: int = 8

    def overrides(self, seed: int) -> tuple[str, ...]:
        """What every run of the laboratory changes in its preset."""
        return (
            f"run.seed={seed}",
            f"train.steps={self.steps}",
            # Static tests are not written for every question: a step must be less than what is left of a few.
            f"train.questions={max(1, min(16, self.problems // 4))}",
            f"data.problems={self.problems}",
            f"data.heldout_problems={self.heldout}",
            f"warm_start.black_box={self.black_box}",
            f"warm_start.steps={self.warm_start_steps}",
            f"warm_start.code_weight={self.code_weight}",
            f"eval.every={self.steps}",
            f"checkpoint.every={self.steps}",
            "checkpoint.keep_last=1",
            "sandbox.workers=1",
        )


@dataclass(frozen=True)
class Row:
    """A line of a table: the command, by seed, whose figures it shows."""

    name: str
    command: Callable[[int], Command]


@dataclass(frozen=True)
class Table:
    """A table of the paper, in the micro world. columns: each with the figure's name in an evaluation."""

    name: str
    title: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]


def micro_tables(lab: MicroBudget) -> dict[str, Table]:
    """Every table by name, with the paper's rows."""
    return {name: _table(lab, name, paper) for name, paper in published().items()}


def _table(lab: MicroBudget, name: str, paper: Published) -> Table:
    rows = {row: methods for row, methods in paper.rows.items() if name != "collaboration" or len(methods) == 2}
    return Table(
        name,
        paper.title.partition(",")[0] + (", by training step" if name == "dynamics" else ", held-out questions"),
        COLUMNS[name],
        tuple(
            Row(row, partial(_collaboration if len(methods) == 2 else trained, lab, *methods))
            for row, methods in rows.items()
        ),
    )


def trained(lab: MicroBudget, method: str, seed: int) -> Command:
    """A method's training run, after what it needs: the warm start of its seed, and what it learns or starts from."""
    directory = lab.folder / f"{method}-seed{seed}"
    chosen, needs = (*lab.overrides(seed), f"run.directory={directory}"), ()
    if method == "base":
        chosen = (*chosen, "train.steps=0")
    else:
        needs = (trained(lab, "base", seed),)
    if method in AUTHORS:
        suites = _suites(lab, AUTHORS[method], seed)
        chosen, needs = (*chosen, f"data.golden_tests={suites.directory / 'problems.jsonl'}"), (*needs, suites)
    if method in STARTS:
        started_from = trained(lab, STARTS[method], seed)
        chosen, needs = (*chosen, f"test.start={started_from.directory}"), (*needs, started_from)
    return Command(directory, ("train", f"micro/{method}", *chosen), SUMMARY, ("--resume",), needs)


def _suites(lab: MicroBudget, author: str, seed: int) -> Command:
    """Tests that a method's Test LLM writes, once and for all, for the training questions."""
    writer = trained(lab, author, seed)
    source = problems_file(lab, "train", seed)
    return _evaluation(
        lab, "suites", f"suites-{author}-seed{seed}", source, ("--model", str(writer.directory)), (writer,)
    )


def _collaboration(lab: MicroBudget, coder: str, tester: str, seed: int) -> Command:
    """Selects, from N sampled programs, the one that passes the most generated tests."""
    code, test = trained(lab, coder, seed), trained(lab, tester, seed)
    models = ("--model", str(code.directory), "--test-model", str(test.directory), "--n", str(lab.programs))
    name = f"collaboration-{coder}-{tester}-seed{seed}"
    return _evaluation(lab, "collaboration", name, problems_file(lab, "heldout", seed), models, (code, test))


def problems_file(lab: MicroBudget, split: str, seed: int) -> Path:
    """Where a seed's questions are written for the evaluating commands; held-out ones are the same for every seed."""
    return lab.folder / ("heldout.jsonl" if split == "heldout" else f"train-seed{seed}.jsonl")


def _evaluation(
    lab: MicroBudget, kind: str, name: str, source: Path, options: tuple[str, ...], needs: tuple[Command, ...]
) -> Command:
    directory = lab.folder / name
    arguments = ("eval", kind, "--data", str(source), *options, "--out", str(directory), "--workers", "1")
    return Command(directory, arguments, SUMMARY, needs=needs)
