"""UnLeakedTestBench as the authors of Code-A1 score it, from which the paper's second table comes.

A function's five tests are one module. pass@5 is the share of tests that pass, over all functions of the data. A
function enters mut@5 if it is one of a fixed tenth, and all its tests pass; the share of its mutants on which the whole
module does not pass, in `LONGEST` seconds, counts. As in `official`, function and mutants are trusted.

Not as in the authors' scripts: a function has no more than five tests to pass, test methods of classes are not counted,
and tests cannot use pytest's own fixtures.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from codea1_jax.evals.scores.mutants import make_mutants
from codea1_jax.evals.scores.paper_tests import collected, read_test
from codea1_jax.evals.scores.unleaked import CORRECT, ROUNDS, WRONG, FunctionResult
from data_pipeline import Problem
from sandbox import CheckJob, Judge, Limits

MEMORY_MB = 4096
LONGEST = 10.0  # seconds that the tests may take together on a mutant
ON_FUNCTION = 30.0  # and on the function itself
FUNCTIONS = 3_909  # of the whole benchmark
PACKAGES = ("numpy", "pandas")  # which the header imports

HEADER = """\
import os, re, math, random, string, warnings, datetime, traceback
import numpy, pandas
import numpy as np
import pandas as pd
from typing import List, Dict, Any, Optional, Union, Tuple, Set, FrozenSet, Sequence, Iterable, Generator, Callable
"""
# Tests import everything from a module `mod`; pytest runs one function after another.
_AROUND = '__import__("sys").modules["mod"] = __import__("sys").modules.pop("solution")\nimport pytest\n'
_ONLY = "\nfor _ in [name for name in globals() if name.startswith('test') and name != {name!r}]: del globals()[_]\n"


def fixed_tenth(problems: Sequence[Problem]) -> Sequence[Problem]:
    """The functions whose mutants count: those at the fixed places of the whole benchmark, all of any other data."""
    if len(problems) != FUNCTIONS:
        return problems
    places = json.loads(Path(__file__).with_name("fixed_tenth.json").read_text())
    return [problems[place] for place in places]


def score(
    responses: Mapping[Problem, Sequence[str]], mutated: Collection[Problem], judge: Judge
) -> Iterator[FunctionResult]:
    """Judges every function's responses; results in order. Mutants are made of those in `mutated` that need them.

    Raises SandboxError if the judge fails, UserError where cosmic-ray is missing.
    """
    for problem, written in responses.items():
        yield _score(problem, written, problem in mutated, judge)


def _score(problem: Problem, responses: Sequence[str], mutated: bool, judge: Judge) -> FunctionResult:
    tests = [read_test(response, problem.entry_point, number) for number, response in enumerate(responses)]
    module = "\n\n".join(tests)
    runnable = collected(module)
    pending = [
        judge.submit_check(_job(problem, problem.solution, module + _ONLY.format(name=name), ON_FUNCTION))
        for name, runs in runnable.items()
        if runs
    ]
    passed = [future.result().passed for future in pending]
    outcomes = tuple(CORRECT if each else WRONG for each in passed)[:ROUNDS]
    mutants, killed = 0, 0
    if mutated and passed and all(passed) and all(runnable.values()):
        mutants, killed = _mutation(problem, module, judge)
    return FunctionResult(problem.id, tuple(tests), outcomes, mutants, killed)


def _mutation(problem: Problem, module: str, judge: Judge) -> tuple[int, int]:
    """How many mutants there are, and on how many the module does not pass. A function without any counts for none."""
    (made,) = make_mutants([problem.solution])
    if isinstance(made, str):
        return 0, 0
    pending = [judge.submit_check(_job(problem, mutant.program, module, LONGEST)) for mutant in made]
    return len(made), sum(not future.result().passed for future in pending)


def _job(problem: Problem, program: str, module: str, seconds: float) -> CheckJob:
    limits = Limits(call_seconds=seconds, load_seconds=seconds, program_seconds=seconds, memory_mb=MEMORY_MB)
    check = f"{HEADER}{_AROUND}from mod import *\n{module}"
    return CheckJob(HEADER + program, check, problem.entry_point, limits, in_process=True)
