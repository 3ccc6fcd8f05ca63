"""Tests of a function under pytest, in a jail: what UnLeakedTestBench's scripts run as `pytest test.py`.

A job's program writes the function and its tests to files of the jail, and calls pytest on them. Functions, mutants and
tests are trusted here: a test that cheats fools only itself.
"""

import ast
from dataclasses import dataclass

from sandbox import Execution, Job, Limits

PACKAGES = ("numpy", "pandas", "pytest")  # which the judge's Python needs
MEMORY_MB = 4096

# Above a function, and above its tests.
HEADER = """\
import os, re, math, random, string, warnings, datetime, traceback
import numpy, pandas, pytest
import numpy as np
import pandas as pd
from typing import List, Dict, Any, Optional, Union, Tuple, Set, FrozenSet, Sequence, Iterable, Generator, Callable
"""
IMPORT_ALL = "from mod import *\n"  # the function under test

# Plugins that write files or dump stacks decide no verdict, and starting them takes time.
_PROGRAM = """\
import os, tempfile, time
import pytest

FLAGS = "-c /dev/null --rootdir=. --capture=sys --assert=plain --tb=no --no-header --no-summary -q".split()
WITHOUT = "cacheprovider junitxml pastebin stepwise faulthandler setuponly setupplan doctest".split()


class Counts:
    passed = 0

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and not hasattr(report, "wasxfail"):
            self.passed += report.passed


def run(*flags):
    started = time.monotonic()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, text in FILES.items():
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)
        without = [flag for name in WITHOUT for flag in ("-p", "no:" + name)]
        status = pytest.main([*FLAGS, *without, *flags, "test.py"], plugins=[counts])
        os.chdir("/")
    return int(status), counts.passed, time.monotonic() - started
"""


@dataclass(frozen=True)
class PytestRun:
    """What came of tests. Nothing has passed in a run that did not end in time.

    passed: how many tests, not those with an error around them. succeeded: whether pytest's exit status is 0.
    seconds: by the clock.
    """

    passed: int = 0
    succeeded: bool = False
    seconds: float = 0.0


def pytest_job(program: str, tests: str, seconds: float, *flags: str) -> Job:
    files = {"mod.py": f"{HEADER}\n{program}", "test.py": f"{HEADER}{IMPORT_ALL}\n{tests}"}
    limits = Limits(memory_mb=MEMORY_MB).lasting(seconds)
    arguments = ", ".join(map(repr, flags))
    return Job(f"FILES = {files!r}\n{_PROGRAM}", (f"run({arguments})",), limits)


def read_run(execution: Execution) -> PytestRun:
    (outcome,) = execution.outcomes
    if outcome.value is None:
        return PytestRun()
    status, passed, seconds = ast.literal_eval(outcome.value)
    return PytestRun(passed, status == 0, seconds)
