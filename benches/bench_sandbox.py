"""How fast the judge is, next to the two obvious ways to run an untrusted program: `make bench-sandbox`.

Every program is new, has 23 lines and is called 64 times; or it has 20, reads standard input, and is run for each of 16
tests. All ways run such programs on the same number of processes at a time, in turns, so that a busy machine slows all
of them. Takes less than half a minute on 2 idle cores. Ends with one line of JSON.
"""

import itertools
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from sandbox import Job, SandboxPool, Task
from sandbox.host.interpreter import find_interpreter
from sandbox.host.jail import plan_launch

PROGRAM = '''from typing import List
import math

def f(xs: List[int], name: str, k: int) -> list:
    """Rotate, count and mix."""
    if not xs:
        return []
    total = 0
    best = None
    for x in xs:
        total += x * k
        if x % 2 == 0:
            total -= {salt}
        elif x > k:
            total += 2
        if best is None or x > best:
            best = x
    counts = {{}}
    for c in name:
        counts[c] = counts.get(c, 0) + 1
    out = [total, best, math.gcd(total, k + 1)]
    out.extend(sorted(counts.values()))
    return out
'''
CALLS = tuple(f"f([{i}, {i + 1}, {i + 2}], 'ab{i}', {i})" for i in range(64))

STREAM = """import sys
from collections import Counter

def solve(numbers, k):
    best = current = 0
    seen = Counter()
    for number in numbers:
        seen[number] += 1
        current = max(0, current + number - k)
        best = max(best, current)
    return best, seen.most_common(1)[0][1] + {salt}

def main():
    for _ in range(int(input())):
        n, k = map(int, input().split())
        numbers = list(map(int, sys.stdin.readline().split()))
        print(*solve(numbers[:n], k))

if __name__ == "__main__":
    main()
"""
INPUTS = tuple("10\n" + 10 * f"20 {i}\n{' '.join(map(str, range(i, i + 20)))}\n" for i in range(16))

SALTS = itertools.count()
ROUNDS = 5


def jobs(count: int) -> list[Job]:
    """Of programs that the judge has not seen: it remembers what it has found out about those that it has."""
    return [Job(PROGRAM.format(salt=next(SALTS)), CALLS) for _ in range(count)]


def streams(count: int) -> list[Job]:
    return [Job(STREAM.format(salt=next(SALTS)), INPUTS, task=Task.STREAM) for _ in range(count)]


def run_each(runs: Iterable[tuple[Sequence[str], str, int]], processes: int) -> None:
    """Commands, each with its standard input and the lines that it must print."""

    def run(command: Sequence[str], text: str, lines: int) -> None:
        result = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        assert result.stdout.count("\n") == lines

    with ThreadPoolExecutor(processes) as threads:
        list(threads.map(run, *zip(*runs, strict=True)))


def as_scripts(command: Sequence[str], batch: Sequence[Job]) -> Iterator[tuple[Sequence[str], str, int]]:
    for job in batch:
        yield command, job.program + "".join(f"print({call})\n" for call in job.calls), len(job.calls)


def compare(pool: SandboxPool, workers: int) -> dict[str, list[float]]:
    """Programs in a second by each way, of those that read standard input tests, round by round."""
    python, cold, tests = str(find_interpreter().executable), plan_launch("nsjail", ()).arguments(0), len(INPUTS)

    def run_streams() -> None:
        run_each((([python, "-c", job.program], text, 10) for job in streams(3) for text in job.calls), workers)

    ways: dict[str, tuple[int, Callable[[], object]]] = {
        "judge": (200, lambda: pool.execute(jobs(200))),
        "plain_python": (40, lambda: run_each(as_scripts([python, "-"], jobs(40)), workers)),
        "cold_nsjail": (40, lambda: run_each(as_scripts(cold, jobs(40)), workers)),
        "streams": (30 * tests, lambda: pool.execute(streams(30))),
        "streams_plain_python": (3 * tests, run_streams),
    }
    speeds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, (count, work) in ways.items():
            start = time.perf_counter()
            work()
            speeds[way].append(count / (time.perf_counter() - start))
    return speeds


def main() -> None:
    workers = os.cpu_count() or 1
    with SandboxPool(workers=workers, backend="nsjail") as pool:
        pool.execute(jobs(20))
        speeds = compare(pool, workers)
    medians = {way: statistics.median(each) for way, each in speeds.items()}
    print(f"{workers} at a time, median of {ROUNDS} rounds")
    for way, speed in medians.items():
        print(f"{way:22}{speed:8.1f}   {'tests' if way.startswith('streams') else 'programs'}/s")
    ratios = {}
    for way in ("plain_python", "cold_nsjail", "streams_plain_python"):
        ours = speeds["streams" if way.startswith("streams") else "judge"]
        ratios[way] = statistics.median(first / second for first, second in zip(ours, speeds[way], strict=True))
    print("ratios:", ", ".join(f"{way} {value:.1f}" for way, value in ratios.items()))
    print(json.dumps({"bench": "sandbox", "ratios": ratios, "per_second": medians}))


if __name__ == "__main__":
    main()
