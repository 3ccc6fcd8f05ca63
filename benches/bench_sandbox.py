"""How fast the judge is, next to the two obvious ways to run an untrusted program: `make bench-sandbox`.

Every program is new, has 23 lines and is called 64 times; or it has 20, reads standard input, and is run for each of 16
tests. All ways run such programs on the same number of processes at a time, in turns, so that a busy machine slows all
of them. Takes less than half a minute on 2 idle cores. Ends with one line of JSON.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
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


def jobs(count: int) -> list[Job]:
    """Of programs that the judge has not seen: it remembers what it has found out about those that it has."""
    return [Job(PROGRAM.format(salt=next(SALTS)), CALLS) for _ in range(count)]


def streams(count: int) -> list[Job]:
    return [Job(STREAM.format(salt=next(SALTS)), INPUTS, task=Task.STREAM) for _ in range(count)]


def as_script(job: Job) -> str:
    return job.program + "".join(f"print({call})\n" for call in job.calls)


def run_each(command: Sequence[str], batch: Sequence[Job], processes: int) -> None:
    def run(job: Job) -> None:
        result = subprocess.run(command, input=as_script(job), capture_output=True, text=True, check=True)
        assert result.stdout.count("\n") == len(job.calls)

    with ThreadPoolExecutor(processes) as threads:
        list(threads.map(run, batch))


def run_streams(python: str, batch: Sequence[Job], processes: int) -> None:
    def run(program: str, text: str) -> None:
        result = subprocess.run([python, "-c", program], input=text, capture_output=True, text=True, check=True)
        assert result.stdout.count("\n") == 10

    with ThreadPoolExecutor(processes) as threads:
        list(threads.map(run, *zip(*((job.program, text) for job in batch for text in job.calls), strict=True)))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(pool: SandboxPool, workers: int, rounds: int) -> dict[str, list[float]]:
    plain = [str(find_interpreter().executable), "-"]
    cold = plan_launch("nsjail", ()).arguments(0)
    speeds: dict[str, list[float]] = {"judge": [], "plain_python": [], "cold_nsjail": []}
    for _ in range(rounds):
        speeds["judge"].append(200 / seconds(lambda: pool.execute(jobs(200))))
        speeds["plain_python"].append(40 / seconds(lambda: run_each(plain, jobs(40), workers)))
        speeds["cold_nsjail"].append(40 / seconds(lambda: run_each(cold, jobs(40), workers)))
    return speeds


def compare_streams(pool: SandboxPool, workers: int, rounds: int) -> dict[str, list[float]]:
    python, tests = str(find_interpreter().executable), len(INPUTS)
    speeds: dict[str, list[float]] = {"streams": [], "streams_plain_python": []}
    for _ in range(rounds):
        speeds["streams"].append(30 * tests / seconds(lambda: pool.execute(streams(30))))
        speeds["streams_plain_python"].append(3 * tests / seconds(lambda: run_streams(python, streams(3), workers)))
    return speeds


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median([first / second for first, second in zip(ours, theirs, strict=True)])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments.add_argument("--rounds", type=int, default=5)
    chosen = arguments.parse_args()
    with SandboxPool(workers=chosen.workers, backend="nsjail") as pool:
        pool.execute(jobs(20))
        speeds = compare(pool, chosen.workers, chosen.rounds)
        stream_speeds = compare_streams(pool, chosen.workers, chosen.rounds)
    medians = {way: statistics.median(values) for way, values in speeds.items()}
    print(
        f"{'way':14}{'programs/s':>12}{'calls/s':>12}   ({chosen.workers} at a time, median of {chosen.rounds} rounds)"
    )
    for way, speed in medians.items():
        print(f"{way:14}{speed:12.1f}{64 * speed:12.0f}")
    stream_medians = {way: statistics.median(values) for way, values in stream_speeds.items()}
    ratios = {way: ratio(speeds["judge"], speeds[way]) for way in speeds if way != "judge"}
    ratios["streams_plain_python"] = ratio(*stream_speeds.values())
    for way, speed in stream_medians.items():
        print(f"{way:22}{speed:8.0f}   tests/s")
    print("ratios:", ", ".join(f"{way} {value:.1f}" for way, value in ratios.items()))
    figures = {"programs_per_second": medians, "tests_per_second": stream_medians}
    print(json.dumps({"bench": "sandbox", "ratios": ratios, **figures}))


if __name__ == "__main__":
    main()
