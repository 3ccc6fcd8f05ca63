"""`codea1 eval code`: draw, check and count, resumably, in one folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from codea1_jax.evals.answers.requests import program_requests
from codea1_jax.evals.answers.samples import sample_line
from codea1_jax.evals.commands.journal import Journal
from codea1_jax.evals.scores.benchmark import Benchmark
from codea1_jax.evals.scores.code import TaskResult, check_samples, metrics_of
from codea1_jax.game.players import Player
from data_pipeline import Problem, Refusal
from sandbox import Judge

SAMPLES_FILE = "samples.jsonl"
RESULTS_FILE = "results.jsonl"

Progress = Callable[[int, int], None]


def evaluate_code(
    benchmark: Benchmark, player: Player, samples: int, judge: Judge, journal: Journal, progress: Progress
) -> dict[str, Any]:
    """Figures per benchmark, and what could not be judged. The journal has every sample and result at once.

    Samples are also drawn for what cannot be judged: the benchmarks' own scorers refuse a file without some task.

    Raises SandboxError if the judge fails, and what the player raises.
    """
    results = {line["task_id"]: _result(line) for line in journal.lines(RESULTS_FILE)}
    todo = [problem for problem in benchmark.everything if problem.id not in results]
    total = len(benchmark.problems)
    progress(len(results), total)
    drawn = _drawn(todo, player, samples, journal)
    sound = ((problem, programs) for problem, programs in drawn if problem in benchmark.limits)
    for result in check_samples(benchmark, sound, judge):
        journal.add(RESULTS_FILE, [asdict(result)])
        results[result.task_id] = result
        progress(len(results), total)
    scored = [results[problem.id] for problem in benchmark.problems if results[problem.id].statuses]
    without = [problem.id for problem in benchmark.problems if not results[problem.id].statuses]
    return {
        "benchmarks": {
            source: {"problems": benchmark.sizes[source], "sound": sum(r.source == source for r in scored)}
            | {k: asdict(v) for k, v in found.items()}
            for source, found in metrics_of(scored, benchmark.sizes).items()
        },
        "unsound": _by_id(benchmark.unsound),
        "missing_dependencies": _by_id(benchmark.missing),
        "missing_packages": dict(benchmark.missing_packages.most_common()),
        "without_samples": without,
    }


def _drawn(
    problems: Sequence[Problem], player: Player, samples: int, journal: Journal
) -> Iterator[tuple[Problem, tuple[str, ...]]]:
    """Programs drawn before and not yet checked, then new ones, each written down when it comes."""
    before: dict[str, list[dict[str, str]]] = {}
    for line in journal.lines(SAMPLES_FILE):
        before.setdefault(line["task_id"], []).append(line)
    tasks = {sample_line(problem, "")["task_id"]: problem for problem in problems}
    for task in tasks.keys() & before.keys():
        if len(before[task]) != samples:  # an interruption cut them short
            del before[task]
    journal.rewrite(SAMPLES_FILE, [line for lines in before.values() for line in lines])
    for task in [task for task in tasks if task in before]:
        yield tasks.pop(task), tuple(line["solution"] for line in before[task])
    missing = tuple(tasks.values())
    for i, written in player.programs(program_requests(missing, samples)):
        programs = tuple(each.program for each in written)
        journal.add(SAMPLES_FILE, [sample_line(missing[i], program) for program in programs])
        yield missing[i], programs


def _result(line: Mapping[str, Any]) -> TaskResult:
    return TaskResult(line["task_id"], line["source"], tuple(line["statuses"]), tuple(line["details"]))


def _by_id(refusals: Sequence[Refusal]) -> dict[str, str]:
    return {refusal.id: refusal.reason for refusal in refusals}
