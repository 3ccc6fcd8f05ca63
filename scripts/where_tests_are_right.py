"""Are tests right where it matters? For runs of micro-hard: python scripts/where_tests_are_right.py RUN ...

Five suites are drawn for each of 256 held-out questions, whose solution is shown. A call is hard if it shows a mutant
that at most a tenth of the question's probes show. For each run this prints the share of distinct calls that are hard,
and the share of right answers among hard calls and among the others.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
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


def shown(problem: Problem, inputs: list[str]) -> list[bool]:
    """Whether each call shows a hard mutant."""
    probes, found = list(problem.probe_calls), [False] * len(inputs)
    on_probes, on_inputs = answers_of(problem.solution, probes), answers_of(problem.solution, inputs)
    for mutant in problem.mutants:
        differing = [a != b for a, b in zip(answers_of(mutant, probes), on_probes, strict=True)]
        if 0 < sum(differing) <= HARD * len(probes):
            others = zip(found, answers_of(mutant, inputs), on_inputs, strict=True)
            found = [known or a != b for known, a, b in others]
    return found


def describe(run: Path) -> str:
    """The three shares."""
    problems = micro.problems("heldout", QUESTIONS, 0, micro.HARD)
    with tempfile.TemporaryDirectory() as folder:
        heldout = Path(folder, "heldout.jsonl")
        problem_files.write(heldout, problems)
        every, right = (calls(run, heldout, answers) for answers in ("correct", "drop"))
    found = []
    for problem in problems:
        inputs = sorted(every.get(problem.id, ()))
        found += zip(shown(problem, inputs), (call in right.get(problem.id, ()) for call in inputs), strict=True)
    of_hard, of_others = ([is_right for hard, is_right in found if hard is wanted] for wanted in (True, False))
    shares = len(of_hard) / len(found), sum(of_hard) / len(of_hard), sum(of_others) / len(of_others)
    return "hard {:.1%}, right of hard {:.1%}, right of others {:.1%}".format(*shares)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        print(f"{Path(name).name}: {describe(Path(name))}")
