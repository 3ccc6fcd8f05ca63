"""Draws docs/images/judge-rate.png, how fast the judge is by workers, tests and lines: `make bench-sandbox-picture`.

The ways of bench_sandbox.py, in turns. Takes some minutes on 2 idle cores.
"""

import os
import statistics
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
from bench_sandbox import CALLS, SALTS, compare, job

from sandbox import Job, SandboxPool

PICTURE = Path(__file__).parents[1] / "docs/images/judge-rate.png"
LABELS = {"judge": "the judge", "plain_python": "a plain python process each", "cold_nsjail": "a cold nsjail each"}
CORES = os.cpu_count() or 1
WORKERS, TESTS, FUNCTIONS = (1, 2, 4, 8), (1, 8, 64, 512), (1, 4, 16, 64)


def programs(count: int, tests: int = 64, functions: int = 1) -> list[Job]:
    """New programs of that many functions, of which one is called."""
    calls = [CALLS[i % len(CALLS)] for i in range(tests)]
    return [longer(job(calls), functions) for _ in range(count)]


def longer(one: Job, functions: int) -> Job:
    others = (
        one.program.replace("def f(", f"def other_{i}(").replace("= 0", f"= {next(SALTS)}")
        for i in range(functions - 1)
    )
    return Job("\n".join([*others, one.program]), one.calls)


def measure(workers: int, jobs: Callable[[int], list[Job]]) -> dict[str, float]:
    """Programs per second of each way, the median of three rounds."""
    with SandboxPool(workers=workers, backend="nsjail") as pool:
        pool.execute(jobs(20))
        return {way: statistics.median(speeds) for way, speeds in compare(pool, workers, 3, jobs).items()}


def main() -> None:
    curves: Mapping[str, Mapping[int, dict[str, float]]] = {
        f"programs at a time, on {CORES} cores": {n: measure(n, programs) for n in WORKERS},
        "tests of a program": {n: measure(CORES, partial(programs, tests=n)) for n in TESTS},
        "lines of a program": {23 * n: measure(CORES, partial(programs, functions=n)) for n in FUNCTIONS},
    }
    figure, panels = plt.subplots(1, len(curves), sharey=True, figsize=(11, 3.4), layout="constrained")
    for panel, (what, points) in zip(panels, curves.items(), strict=True):
        for way, label in LABELS.items():
            panel.loglog(list(points), [speeds[way] for speeds in points.values()], "o-", label=label)
        panel.set_xticks(list(points), list(map(str, points)))
        panel.minorticks_off()
        panel.set_xlabel(what)
        panel.grid(alpha=0.3)
        for n, speeds in points.items():
            print(f"{what} {n}:", ", ".join(f"{LABELS[way]} {speed:.0f}/s" for way, speed in speeds.items()))
    panels[0].set_ylabel("programs per second")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(LABELS), frameon=False)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
