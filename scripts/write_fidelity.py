"""Writes docs/fidelity.md: parameter by parameter the paper, its code, the presets MODEL/METHOD_paper, the defaults.

The last two columns are those of the presets, so that they are never out of date.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codea1_jax.config import Config, load
from codea1_jax.reproduce.published import Choice, choices

TARGET = Path(__file__).parent.parent / "docs" / "fidelity.md"
PAPER_PRESET, DEFAULT_PRESET = "1.5b/a1_paper", "1.5b/a1"
NOT_STATED = "–"

HEAD = f"""# Fidelity to the paper

<!-- Written by scripts/write_fidelity.py from the presets; a test fails if it is out of date. -->

What the paper (arXiv 2603.15611) states, what its authors' code does, what the presets `MODEL/METHOD_paper` do (here
`{PAPER_PRESET}`), and the defaults (`{DEFAULT_PRESET}`). {NOT_STATED}: the paper does not state it, as far as we know.
`codea1 reproduce` uses `MODEL/METHOD_paper` unless `--as ours` says otherwise.
"""

EVALUATION = """## Evaluation

What `codea1 reproduce --as paper` passes to the evaluating commands:

| | paper | its code | `--as paper` | default |
| --- | --- | --- | --- | --- |
| programs of a problem | 32 | 32 | `--n 32` | 32 |
| temperature, top-p | 0.7, 0.95 | 0.7, 0.95 | 0.7, 0.95 | 0.7, 0.95 |
| longest response; BigCodeBench's | 4,096; 2,048 | 4,096; 2,048 | 4,096; 2,048 | 4,096 |
| reading of a program | – | first ` ```python ` block | `--reading paper` | as the run, else `commonmark` |
| time of a program | – | 10 s of the clock, 20 s after the last step; BigCodeBench 240 s and 30 GiB | \
`--limits paper`, `paper_last` for trained models | four times the reference's CPU time |
| tests | 5 rounds | [its fork](evaluation.md#tests) of the benchmark's scripts | `--protocol paper` | `rounds` |
"""

EVERYWHERE = """## What differs in every preset

| | the original | here |
| --- | --- | --- |
"""

OPEN = """## What is open

[Reproduce the tables](tables.md#choices-that-the-paper-leaves-open) names what the paper and its code leave open, row
by row.
"""


@dataclass(frozen=True)
class Row:
    """A key of the configuration. code: None: as the paper."""

    key: str
    meaning: str
    paper: Any
    code: Any = None

    @property
    def of_code(self) -> Any:
        return self.paper if self.code is None else self.code


SECTIONS = {
    "Sampling": (
        Row("train.questions", "questions per step", 256),
        Row("train.epochs", "epochs", 3),
        Row("rollout.samples", "n, programs per question", 8),
        Row("rollout.suites", "m, suites per program", 8),
        Row("rollout.temperature", "temperature", 1.0),
        Row("rollout.top_p", "top-p", 1.0),
        Row("rollout.code_prompt_tokens", "longest prompt, Code LLM", 4096),
        Row("rollout.test_prompt_tokens", "longest prompt, Test LLM", 8192),
        Row("rollout.code_tokens", "longest program", 4096),
        Row("rollout.test_tokens", "longest suite", 4096),
    ),
    "Reading and judging": (
        Row("reading", "blocks that are read from a response", NOT_STATED, "paper"),
        Row("rewards.repeats", "when a test repeats another", NOT_STATED, "text"),
        Row("rewards.junk", "asserts outside the language of tests", NOT_STATED, "invalid"),
        Row("sandbox.script_seconds", "seconds of a program with all its suites and the book", NOT_STATED, 10.0),
        Row("sandbox.reference_names", "a reference's constants and helpers are visible", NOT_STATED, True),
    ),
    "Rewards and mistake book": (
        Row("rewards.suite_size", "K, tests asked for", 8),
        Row("rewards.alpha", "α, weight of validity", 0.5),
        Row("rewards.passing", "what a program earns", "fraction"),
        Row("rewards.difficulty", "what a suite's failures earn", "fraction"),
        Row("rewards.pool_tests", "programs face their siblings' tests", False),
        Row("rewards.scale_advantages", "advantages are divided by the standard deviation", True),
        Row("train.update_n", "programs a question whose suites are learned from", NOT_STATED, 1),
        Row("method.white_box", "the Test LLM sees the program", True),
        Row("method.mistake_book", "mistake book", True),
        Row("method.answer_prediction", "tests state their answers", True),
    ),
    "Update": tuple(
        Row(f"code.{key}", meaning, *values)
        for key, meaning, *values in (
            ("grpo.clip_low", "clip below", 0.2),
            ("grpo.clip_high", "clip above", 0.28),
            ("grpo.dual_clip", "bound at a negative advantage", NOT_STATED, 10.0),
            ("grpo.kl_coef", "KL coefficient", 0.001),
            ("grpo.entropy_coef", "entropy bonus", 0.0),
            ("grpo.mini_batch_questions", "questions per optimizer update", 128),
            ("optimizer.learning_rate", "learning rate", 1e-6),
            ("optimizer.schedule", "schedule", "cosine"),
            ("optimizer.warmup_steps", "warm-up steps", 10),
            ("optimizer.warmup_from_zero", "the first step's rate is 0", NOT_STATED, True),
            ("optimizer.beta1", "β₁", 0.9),
            ("optimizer.beta2", "β₂", 0.999),
            ("optimizer.weight_decay", "weight decay", 0.1),
            ("optimizer.clip_norm", "gradient norm at most", 1.0),
        )
    ),
    "Validation during training": (
        Row("eval.every", "steps between validations", 10),
        Row("eval.samples", "programs of a problem", 32),
        Row("eval.temperature", "temperature", 0.7),
        Row("eval.top_p", "top-p", 0.95),
        Row("eval.limits", "limits of a program", NOT_STATED, "paper"),
    ),
}
EVERYWHERE_CHOICES = ("prompts", "tests", "clock", "numbers")  # of choices.yaml: what the code does otherwise


def value(config: Config, key: str) -> Any:
    """What a configuration has at a key with dots."""
    found: Any = config
    for name in key.split("."):
        found = getattr(found, name)
    return found


def page() -> str:
    """The whole page, in Markdown."""
    paper, default = load(Config, PAPER_PRESET), load(Config, DEFAULT_PRESET)
    parts = [HEAD]
    for title, rows in SECTIONS.items():
        lines = ["| | key | paper | its code | `_paper` | default |", "| --- | --- | --- | --- | --- | --- |"]
        for row in rows:
            values = (row.paper, row.of_code, value(paper, row.key), value(default, row.key))
            lines.append("| " + " | ".join((row.meaning, f"`{row.key}`", *map(_shown, values))) + " |")
        parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    found = {choice.name: choice for choice in choices().of_row(("a1",))}
    return "\n".join(
        [*parts, EVALUATION, EVERYWHERE.rstrip("\n"), *(_line(found[n]) for n in EVERYWHERE_CHOICES), "", OPEN]
    )


def _line(choice: Choice) -> str:
    return f"| {choice.name} | {choice.open} | {choice.here} |"


def _shown(found: Any) -> str:
    if isinstance(found, bool):
        return "yes" if found else "no"
    if found is None:
        return "none"
    return f"{found:,}" if isinstance(found, int) else f"{found:g}" if isinstance(found, float) else str(found)


if __name__ == "__main__":
    TARGET.write_text(page())
    print(TARGET)
