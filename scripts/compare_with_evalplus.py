"""Compares our verdicts with those of evalplus' own scorer, sample by sample, on the file of samples that we write.

evalplus is not a dependency. Put it into a separate environment, and name its Python:

    uv venv /tmp/evalplus && uv pip install -p /tmp/evalplus evalplus==0.3.1
    .venv/bin/python scripts/compare_with_evalplus.py DIR/evalplus_sample.parquet \\
        /tmp/evalplus/bin/python runs/evalplus

The data, of the training form (see data_pipeline/evalplus.py), is written anew in evalplus' released form, which its
scorer reads; the samples are every reference and mutants of it. `codea1 eval code` scores them twice, by the checks in
the data and by those made of the released form; evalplus scores the samples.jsonl that it wrote. Out of time is wrong.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from codea1_jax.evals.answers.samples import sample_line
from codea1_jax.evals.commands.code import RESULTS_FILE, SAMPLES_FILE
from codea1_jax.evals.scores.mutate import mutate
from data_pipeline import Problem
from data_pipeline.reading import read

BENCHMARKS = {  # evalplus' name of each, and the setting by which it reads another file than its own
    "humanevalplus": ("humaneval", "HUMANEVAL_OVERRIDE_PATH"),
    "mbppplus": ("mbpp", "MBPP_OVERRIDE_PATH"),
}
POLYNOMIAL = 1e-4  # tolerance of HumanEval/32, whose check states it elsewhere than all others
EXPLAINED = {
    "HumanEval/6": "the check in the data takes [] for a list of floats, to which np.allclose finds any [x] close",
    "HumanEval/17": "as HumanEval/6",
    "HumanEval/32": "evalplus 0.3.1 does not count the inputs that it tries of it, and then misses them: all fail",
}

Verdicts = dict[str, list[bool]]  # by task, as evalplus spells it: whether its samples passed, in order


def main() -> int:
    """Exit code 1 if a verdict differs that is not explained above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="HumanEval+ and MBPP+ in the training form")
    parser.add_argument("python", help="of an environment with evalplus")
    parser.add_argument("folder", type=Path, help="where everything is written; a new one")
    parser.add_argument("--mutants", type=int, default=5, help="per reference; default: %(default)s")
    options = parser.parse_args()

    problems = read(options.data).problems
    released, samples = options.folder / "released", options.folder / "mine.jsonl"
    released.mkdir(parents=True)
    for source in BENCHMARKS:
        write_lines(released / f"{source}.jsonl", [as_released(p) for p in problems if p.source == source])
    write_lines(samples, [sample_line(p, text) for p in problems for text in variants(p.solution, options.mutants)])

    by_data, by_released = options.folder / "by_data", options.folder / "by_released"
    scored = {
        "the data's checks": ours(options.data, samples, by_data),
        "the released form": ours(released, samples, by_released),
    }
    other: Verdicts = {}
    for source in BENCHMARKS:
        other |= theirs(options.python, source, released / f"{source}.jsonl", by_data / SAMPLES_FILE)
    return 0 if all([tell(checks, verdicts, other) for checks, verdicts in scored.items()]) else 1


def as_released(problem: Problem) -> dict[str, Any]:
    """The problem as a row of evalplus' released form."""
    nodes = list(ast.walk(ast.parse(problem.check)))
    (inputs,) = (n.value for n in nodes if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "inputs")
    asserted = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) == "assertion"]
    prompt = problem.question if problem.solution.startswith(problem.question) else f"# {problem.id}\n"
    return {
        "task_id": sample_line(problem, "")["task_id"],
        "prompt": prompt,
        "contract": "",
        "canonical_solution": problem.solution.removeprefix(prompt),
        "entry_point": problem.entry_point,
        "base_input": as_json(eval(ast.unparse(inputs), {"inf": float("inf"), "nan": float("nan")})),
        "plus_input": [],
        "atol": ast.literal_eval(asserted[0].args[2]) if asserted else POLYNOMIAL,
        "assertion": "\n".join(line for line in problem.question.splitlines() if line.startswith("assert ")),
    }


def as_json(value: Any) -> Any:
    """The value; what JSON does not have, as evalplus writes it."""
    if isinstance(value, list | tuple | set):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    return str(value) if isinstance(value, complex) else value


def variants(program: str, count: int) -> list[str]:
    """The program, and mutants from all over it."""
    mutants = [mutant.program for mutant in mutate(program)]
    return [program, *mutants[:: max(1, len(mutants) // count)][:count]]


def ours(data: Path, samples: Path, out: Path) -> Verdicts:
    """What `codea1 eval code` reports."""
    command = [sys.executable, "-m", "codea1_jax", "eval", "code", "--json"]
    arguments = ["--data", str(data), "--samples", str(samples), "--out", str(out)]
    subprocess.run([*command, *arguments], check=True, stdout=subprocess.DEVNULL)
    rows = map(json.loads, (out / RESULTS_FILE).read_text().splitlines())
    return {
        row["task_id"].replace("MBPP/", "Mbpp/"): [status == "passed" for status in row["statuses"]] for row in rows
    }


def theirs(python: str, source: str, data: Path, samples: Path) -> Verdicts:
    """What evalplus reports for one benchmark; its cache stays next to the samples."""
    name, override = BENCHMARKS[source]
    found = samples.with_name(f"{samples.stem}_eval_results.json")
    found.unlink(missing_ok=True)
    environment = os.environ | {override: str(data), "XDG_CACHE_HOME": str(samples.parent / "cache")}
    command = [python, "-W", "ignore", "-m", "evalplus.evaluate", "--dataset", name, "--samples", str(samples)]
    subprocess.run([*command, "--base_only"], env=environment, check=True, stdout=subprocess.DEVNULL)
    tasks = json.loads(found.read_text())["eval"]
    return {task: [sample["base_status"] == "pass" for sample in scored] for task, scored in tasks.items()}


def tell(checks: str, mine: Verdicts, other: Verdicts) -> bool:
    """Prints how the verdicts on the tasks of both compare; whether all that differ are explained."""
    tasks = [task for task in other if task in mine]
    pairs = [(task, i, *pair) for task in tasks for i, pair in enumerate(zip(mine[task], other[task], strict=True))]
    passed = sum(verdict for _, _, verdict, _ in pairs)
    differing = [(task, i) for task, i, verdict, their in pairs if verdict != their]
    print(
        f"by {checks}: {len(pairs)} samples of {len(tasks)} of {len(other)} tasks, {passed} pass, "
        f"{len(differing)} verdicts differ"
    )
    for task, i in differing:
        print(f"  {task}, sample {i}: {'right' if mine[task][i] else 'wrong'}; {EXPLAINED.get(task, 'UNEXPLAINED')}")
    return all(task in EXPLAINED for task, _ in differing)


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Writes JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
