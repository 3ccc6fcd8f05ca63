"""The tables: for every row and seed, the command whose figures it shows.

Rows share runs: α = 0.5 is a1, and human golden tests are golden. Every run of a seed waits for that seed's base, which
makes the warm start they all begin with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from codea1_jax.reproduce.works import Work

SUMMARY = "summary.json"

CODE = (("avg@8", "avg_at_n"), ("pass@8", "pass_at_8"))
TESTS = (("pass@5", "pass_at_5"), ("mut@5", "mut_at_5"), ("Mul", "mul"))
HUNT = (("validity", "test_validity"), ("kill rate", "kill_rate"))
CHOSEN = (("one program", "avg_at_8"), ("the chosen one", "best_of_n"))


@dataclass(frozen=True)
class Laboratory:
    """The micro world's shared budget: every method trains for `steps` on the same questions, from the same start.

    black_box: share of the warm start's transcripts that ask for tests without showing a program, so that self-play
    knows how it is asked. programs: N of test-time collaboration.
    """

    folder: Path
    steps: int = 60
    problems: int = 256
    heldout: int = 256
    black_box: float = 0.25
    programs: int = 8

    def overrides(self, seed: int) -> tuple[str, ...]:
        """What every run of the laboratory changes in its preset."""
        return (
            f"run.seed={seed}",
            f"train.steps={self.steps}",
            f"data.problems={self.problems}",
            f"data.heldout_problems={self.heldout}",
            f"warm_start.black_box={self.black_box}",
            f"eval.every={self.steps}",
            f"checkpoint.every={self.steps}",
            "checkpoint.keep_last=1",
            "sandbox.workers=1",
        )


@dataclass(frozen=True)
class Row:
    """A line of a table: the command, by seed, whose figures it shows."""

    name: str
    work: Callable[[int], Work]


@dataclass(frozen=True)
class Table:
    """A table of the paper, in the micro world. columns: each with the figure's name in an evaluation."""

    name: str
    title: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]


def trained(lab: Laboratory, preset: str, seed: int, *changes: str) -> Work:
    """A training run of a method's preset with `changes`, which also name it."""
    pairs = [change.split("=") for change in changes]
    told = [f"{key.rpartition('.')[2]}-{value}" for key, value in pairs]
    return _training(lab, "-".join([preset, *told]), preset, seed, changes)


def _training(
    lab: Laboratory, name: str, preset: str, seed: int, changes: tuple[str, ...], needs: tuple[Work, ...] = ()
) -> Work:
    directory = lab.folder / f"{name}-seed{seed}"
    chosen = (*lab.overrides(seed), *changes, f"run.directory={directory}")
    if preset == "base":
        chosen, start = (*chosen, "train.steps=0"), ()
    else:
        start = (trained(lab, "base", seed),)
    return Work(directory, ("train", f"micro/{preset}", *chosen), SUMMARY, ("--resume",), (*start, *needs))


def micro_tables(lab: Laboratory) -> dict[str, Table]:
    """Every table by name."""

    def row(name: str, preset: str, *changes: str) -> Row:
        return Row(name, lambda seed: trained(lab, preset, seed, *changes))

    base, a1, golden = row("base", "base"), row("a1", "a1"), row("golden", "golden")
    self_play, sft = row("self_play", "self_play"), row("sft", "sft")
    alphas = {alpha: row(f"α = {alpha}", "a1", f"rewards.alpha={alpha}") for alpha in (0.0, 0.25, 0.75, 1.0)}
    alphas[0.5] = Row("α = 0.5", a1.work)
    ablated = (
        row("no white box", "a1", "method.white_box=false"),
        row("no mistake book", "a1", "method.mistake_book=false"),
        row("no answer prediction", "a1", "method.answer_prediction=false"),
        row("self_play, white box", "self_play", "method.white_box=true"),
    )
    tables = (
        Table("code", "Code generation, held-out questions", CODE, (base, golden, self_play, a1)),
        Table("tests", "Test generation, held-out questions", (*TESTS, *HUNT), (base, sft, self_play, a1)),
        Table("alpha", "Weight of validity", (*CODE, *TESTS), tuple(alphas[alpha] for alpha in sorted(alphas))),
        Table("components", "What the parts contribute", (*CODE, *TESTS, *HUNT), (base, a1, *ablated)),
        Table("static", "Static tests as supervision", CODE, (Row("human", golden.work), *_static(lab))),
        Table("collaboration", "Test-time collaboration, Code LLM × Test LLM", CHOSEN, _collaboration(lab)),
    )
    return {table.name: table for table in tables}


def _static(lab: Laboratory) -> tuple[Row, ...]:
    """Golden training on tests that a Test LLM has written, once and for all, for the training questions."""

    def work(author: str, seed: int) -> Work:
        writer = trained(lab, author, seed)
        source = problems_file(lab, "train", seed)
        model = ("--model", str(writer.directory))
        suites = _evaluation(lab, "suites", f"suites-{author}-seed{seed}", source, model, (writer,))
        tests = f"data.golden_tests={suites.directory / 'problems.jsonl'}"
        return _training(lab, f"golden-static-{author}", "golden", seed, (tests,), (suites,))

    return tuple(Row(f"{author} Test LLM", partial(work, author)) for author in ("base", "sft", "a1"))


def _collaboration(lab: Laboratory) -> tuple[Row, ...]:
    """Of N sampled programs the one that passes the most generated tests."""

    def work(coder: str, tester: str, seed: int) -> Work:
        code, test = trained(lab, coder, seed), trained(lab, tester, seed)
        models = ("--model", str(code.directory), "--test-model", str(test.directory), "--n", str(lab.programs))
        name = f"collaboration-{coder}-{tester}-seed{seed}"
        return _evaluation(lab, "collaboration", name, problems_file(lab, "heldout", seed), models, (code, test))

    pairs = [(coder, tester) for tester in ("base", "a1") for coder in ("base", "a1")]
    return tuple(Row(f"{coder} × {tester}", partial(work, coder, tester)) for coder, tester in pairs)


def problems_file(lab: Laboratory, split: str, seed: int) -> Path:
    """Where a seed's questions are written for the evaluating commands; held-out ones are the same for every seed."""
    return lab.folder / ("heldout.jsonl" if split == "heldout" else f"train-seed{seed}.jsonl")


def _evaluation(
    lab: Laboratory, kind: str, name: str, source: Path, options: tuple[str, ...], needs: tuple[Work, ...]
) -> Work:
    directory = lab.folder / name
    arguments = ("eval", kind, "--data", str(source), *options, "--out", str(directory), "--workers", "1")
    return Work(directory, arguments, SUMMARY, needs=needs)
