"""How many of a Code LLM's programs pass a benchmark's own checks: avg@n and pass@k, with their intervals.

The figures are over all problems of a benchmark, as in the paper's tables: those that cannot be judged, and those
without samples, count as failed. `avg_at_n_sound` is over the problems that were judged.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from codea1_jax.evals.journal import RESULTS_FILE, Journal, Progress
from codea1_jax.evals.metrics import Estimate, bounded, estimate, solved
from codea1_jax.evals.requests import program_requests
from codea1_jax.evals.samples import sample_line
from codea1_jax.game.players import Player, ProgramRequest
from codea1_jax.runtime.gather import gathered, is_mine
from data_pipeline import Problem, Refusal
from data_pipeline.benchmark import Benchmark, TaskResult, check_samples
from data_pipeline.verdicts import submit_program
from sandbox import Judge

KS = (1, 2, 4, 5, 8, 10, 16, 32, 64, 100)
SAMPLES_FILE = "samples.jsonl"


def metrics_of(counts: Iterable[tuple[str, int, int]], sizes: Mapping[str, int]) -> dict[str, dict[str, Estimate]]:
    """avg@n and pass@k of every benchmark by its name, over the `sizes[name]` problems that it has.

    counts: of each problem that was judged its benchmark, how many samples it has, at least one, and how many passed.
    """
    by_source: dict[str, list[tuple[int, int]]] = {}
    for source, samples, correct in counts:
        by_source.setdefault(source, []).append((samples, correct))
    metrics = {}
    for source, judged in by_source.items():
        unjudged = sizes[source] - len(judged)
        metrics[source] = solved(judged, KS, unjudged)
        if unjudged:
            metrics[source]["avg_at_n_sound"] = estimate([correct / samples for samples, correct in judged])
    return metrics


def count_correct(
    player: Player, requests: Sequence[ProgramRequest], submit: Callable[[int, str], Callable[[], bool]]
) -> list[tuple[int, int]]:
    """How many programs the player gives to each request, and how many of them are correct.

    submit: submits a program for the request of that number; what it returns waits for the verdict. Equal programs are
    submitted once. On several hosts, each judges its share, and all get all counts.
    """
    pending: dict[int, list[Callable[[], bool]]] = {}
    for i, written in player.programs(requests):
        if is_mine(i):
            programs = [each.program for each in written]
            submitted = {program: submit(i, program) for program in dict.fromkeys(programs)}
            pending[i] = [submitted[program] for program in programs]

    def count() -> dict[int, tuple[int, int]]:
        return {i: (len(programs), sum(passes() for passes in programs)) for i, programs in pending.items()}

    return list(gathered(count).values())


def evaluate_benchmark(
    player: Player, judge: Judge, benchmark: Benchmark, samples: int, stream: tuple[int, ...]
) -> dict[str, float]:
    """The player's avg@n and pass@k, by benchmark, in percent, with intervals. Raises SandboxError if the judge fails.

    The samples of a problem depend on `stream` and the problem alone.
    """
    problems = benchmark.problems

    def submit(i: int, program: str) -> Callable[[], bool]:
        problem = problems[i]
        check = submit_program(judge, problem, program, benchmark.tests[problem], benchmark.limits[problem])
        return lambda: check.result().passed

    counts = count_correct(player, program_requests(problems, samples, stream), submit)
    judged = [(problem.source, *each) for problem, each in zip(problems, counts, strict=True)]
    metrics: dict[str, float] = {}
    for source, estimates in metrics_of(judged, benchmark.sizes).items():
        metrics |= bounded(f"eval/{source}", estimates)
    return metrics


def evaluate_code(
    benchmark: Benchmark, player: Player, samples: int, judge: Judge, journal: Journal, progress: Progress
) -> dict[str, Any]:
    """`codea1 eval code`: figures per benchmark, and what could not be judged.

    The journal has every sample and result at once. Samples are also drawn for what cannot be judged: the benchmarks'
    own scorers refuse a file without some task.

    Raises SandboxError if the judge fails, and what the player raises.
    """

    def score(done: Collection[str]) -> Iterator[TaskResult]:
        drawn = _drawn(
            [problem for problem in benchmark.everything if problem.id not in done], player, samples, journal
        )
        return check_samples(benchmark, ((p, programs) for p, programs in drawn if p in benchmark.limits), judge)

    total = len(benchmark.problems)
    results = journal.completed(RESULTS_FILE, TaskResult, score, lambda done: progress(done, total))
    scored = [results[problem.id] for problem in benchmark.problems if results[problem.id].statuses]
    sound = Counter(result.source for result in scored)
    metrics = metrics_of([(result.source, *result.counts) for result in scored], benchmark.sizes)
    return {
        "benchmarks": {
            source: {"problems": benchmark.sizes[source], "sound": sound[source]}
            | {name: asdict(value) for name, value in estimates.items()}
            for source, estimates in metrics.items()
        },
        "unsound": _by_id(benchmark.unsound),
        "missing_dependencies": _by_id(benchmark.missing),
        "missing_packages": dict(benchmark.missing_packages.most_common()),
        "without_samples": [problem.id for problem in benchmark.problems if not results[problem.id].statuses],
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


def _by_id(refusals: Sequence[Refusal]) -> dict[str, str]:
    return {refusal.id: refusal.reason for refusal in refusals}
