"""How much of a question a Code LLM loses again while it trains on others, from a run's recorded rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from codea1_jax.common.files import read_lines
from codea1_jax.run.telemetry import rollout_steps, rollouts_path


def forgetting(folder: Path) -> float | None:
    """The forgetting of a finished run, in percent, as Chaudhry et al. (arXiv 1801.10112) define it of tasks.

    A visit to a question has the share of its programs that pass all that they face. Forgetting is the best earlier
    visit minus the last one, averaged over the questions that were met at least twice, and negative if the last visits
    are the best ones. Programs that execute and face no test do not count. None if no question was met twice.
    """
    visits: dict[str, list[float]] = {}
    for step in rollout_steps(folder):
        for question in read_lines(rollouts_path(folder, step)):
            if passed := _passed(question):
                visits.setdefault(question["question_id"], []).append(fmean(passed))
    lost = [max(earlier) - last for *earlier, last in visits.values() if earlier]
    return 100 * fmean(lost) if lost else None


def _passed(question: Mapping[str, Any]) -> list[bool]:
    """Of each program that counts, whether it executes and passes all tests of its suites and the book."""
    passed = []
    for program in question["programs"]:
        tests = chain(program["book"], *(suite["tests"] for suite in program["suites"]))
        verdicts = [test["verdict"] for test in tests]
        if verdicts or not program["valid"]:
            passed.append(program["valid"] and all(verdict == "passed" for verdict in verdicts))
    return passed
