"""Are tests right where it matters? For runs of micro-hard: python scripts/where_tests_are_right.py RUN ...

Five suites are drawn for each of 256 held-out questions, whose solution is shown. A call is hard if it shows a mutant
that at most a tenth of the question's probes show. For each run this prints the share of distinct calls that are hard,
and the share of right answers among hard calls and among the others; then the share of a question's mutants that one
right call shows, and that all its right calls show together.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from codea1_jax.common.files import read_lines
from codea1_jax.evals.heldout import HARD
from data_pipeline import Problem, micro, problem_files

QUESTIONS, SUITES = 256, 5


def calls(run: Path, heldout: Path, answers: str) -> dict[str, set[str]]:
    """By question, the distinct calls: all that have a value (answers: correct), or those answered right (drop)."""
    with tempfile.TemporaryDirectory() as folder:
        options = ("--n", str(SUITES), "--temperature", "1", "--top-p", "1", "--workers", "1", "--out", folder)
        command = ("eval", "suites", "--model", str(run), "--data", str(heldout), "--wrong-answers", answers, *options)
        subprocess.run([sys.executable, "-m", "codea1_jax", *command], check=True, capture_output=True)
        written = read_lines(Path(folder, "suites.jsonl"))
        return {each["task_id"]: {test[7:].partition(" == ")[0] for test in each["tests"]} for each in written}


def answers_of(program: str, inputs: list[str]) -> list[Any]:
    """What one of the micro world's programs answers."""
    names: dict[str, Any] = {}
    exec(program, names)  # written by this project
    return [eval(call, names) for call in inputs]


def shown(problem: Problem, inputs: list[str]) -> dict[str, set[int]]:
    """By call, the mutants that answer it differently from the solution, by their numbers."""
    true = answers_of(problem.solution, inputs)
    found: dict[str, set[int]] = {call: set() for call in inputs}
    for i, mutant in enumerate(problem.mutants):
        for call, right, answer in zip(inputs, true, answers_of(mutant, inputs), strict=True):
            if answer != right:
                found[call].add(i)
    return found


def describe(run: Path) -> str:
    """The five shares."""
    problems = micro.problems("heldout", QUESTIONS, 0, micro.HARD)
    with tempfile.TemporaryDirectory() as folder:
        heldout = Path(folder, "heldout.jsonl")
        problem_files.write(heldout, problems)
        every, right = (calls(run, heldout, answers) for answers in ("correct", "drop"))
    found: list[tuple[bool, bool]] = []  # of every call, whether it is hard, and whether it is right
    alone, together = [], []
    for problem in problems:
        by_probe, by_call = (shown(problem, sorted(each)) for each in (problem.probe_calls, every.get(problem.id, ())))
        shows = Counter(chain.from_iterable(by_probe.values()))
        hard = {mutant for mutant, probes in shows.items() if probes <= HARD * len(by_probe)}
        are_right = right.get(problem.id, set())
        found += ((bool(mutants & hard), call in are_right) for call, mutants in by_call.items())
        kills = [by_call[call] for call in are_right & by_call.keys()]
        alone += [len(each) / len(problem.mutants) for each in kills]
        together.append(len(set().union(*kills)) / len(problem.mutants))
    of_hard, of_others = ([is_right for is_hard, is_right in found if is_hard is wanted] for wanted in (True, False))
    return (
        f"hard {len(of_hard) / len(found):.1%}, right of hard {fmean(of_hard):.1%}, right of others "
        f"{fmean(of_others):.1%}; one right call shows {fmean(alone):.1%}, all together {fmean(together):.1%}"
    )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        print(f"{Path(name).name}: {describe(Path(name))}")
