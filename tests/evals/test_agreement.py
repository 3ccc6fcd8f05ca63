"""Our verdicts on mutated programs are those of running the dataset's own check in a plain Python process."""

import json
import os
import subprocess
import sys

from data_pipeline.benchmark import check_samples, make_benchmark
from data_pipeline.mutants import sample_mutants
from data_pipeline.reading import read
from sandbox import SandboxPool, Status

PASSED, TIMED_OUT = Status.PASSED, Status.TIMED_OUT

VARIANTS = 12
SECONDS = 20

# Reads a problem, and forks a process for each program, so that numpy is imported but once.
RUNNER = """
import json, os, signal, sys
import numpy
told = json.load(sys.stdin)
for program in told["programs"]:
    if os.fork() == 0:
        signal.alarm(told["seconds"])
        candidate, judge = {"__name__": "solution"}, {"__name__": "check"}
        try:
            exec(program, candidate)
            exec(told["check"], judge)
            judge["check"](candidate[told["entry_point"]])
        except BaseException:
            os._exit(1)
        os._exit(0)
    print(os.wait()[1], file=sys.stderr)
"""


def passes_in_plain_python(problem, programs):
    """Whether the check accepts each program; None where that takes too long to wait for."""
    told = {"programs": programs, "check": problem.check, "entry_point": problem.entry_point, "seconds": SECONDS}
    command = [sys.executable, "-s", "-c", RUNNER]
    run = subprocess.run(command, input=json.dumps(told), text=True, capture_output=True, check=True)
    statuses = [int(line) for line in run.stderr.splitlines() if line.isdigit()]
    assert len(statuses) == len(programs)
    return [None if os.WIFSIGNALED(status) else status == 0 for status in statuses]


def test_verdicts_are_those_of_the_datasets_own_check(some_rows):
    files, some = some_rows
    problems = [p for p in read(files.evalplus).problems[3 :: 80 if some else 3] if p.id not in files.broken]
    differing, compared = [], 0
    with SandboxPool(workers=2, preload=("numpy",)) as pool:
        benchmark = make_benchmark(problems, pool)
        programs = {problem: sample_mutants(problem.solution, VARIANTS, 0) for problem in benchmark.problems}
        results = list(check_samples(benchmark, programs.items(), pool))
    for (problem, written), result in zip(programs.items(), results, strict=True):
        quick = [(p, status) for p, status in zip(written, result.statuses, strict=True) if status != TIMED_OUT]
        theirs = passes_in_plain_python(problem, [program for program, _ in quick])
        for (program, status), passes in zip(quick, theirs, strict=True):
            if passes is not None:
                compared += 1
                differing += [(problem.id, status, program)] if passes != (status == PASSED) else []
    assert not differing
    assert compared >= 3 * len(problems)
