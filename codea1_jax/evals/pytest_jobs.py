"""Tests of a function under pytest, in a jail: what UnLeakedTestBench's scripts run as `pytest test.py`.

A job's program writes the function and its tests to files of the jail, and calls pytest on them. Functions, mutants and
tests are trusted here: a test that cheats fools only itself.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
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
FLAGS.append("--continue-on-collection-errors")  # of several files, one may not load
WITHOUT = "cacheprovider junitxml pastebin stepwise faulthandler setuponly setupplan doctest".split()


class Counts:
    def __init__(self):
        self.passed, self.by_id = 0, {}

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("[")[0]
        for key in (name, name.split("::")[0]):
            counts = self.by_id.setdefault(key, [0, 0])
            counts[0] += report.when == "call" and report.passed
            counts[1] += report.failed
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
        tests = [name for name in FILES if name != "mod.py"]
        without = [flag for name in WITHOUT for flag in ("-p", "no:" + name)]
        status = pytest.main([*FLAGS, *without, *flags, *tests], plugins=[counts])
        os.chdir("/")
    own = [passed > 0 and not failed for passed, failed in (counts.by_id.get(key, (0, 0)) for key in IDS)]
    return int(status), own, counts.passed, time.monotonic() - started
"""


@dataclass(frozen=True)
class WrittenTests:
    """A function's responses as a protocol reads them.

    texts: one for each response; "" where it is not a test. files: what goes below the header, by name. ids: by which
    pytest knows each text that is a test, in order: a test function's, or a file's. every_test_counts: towards pass@5,
    whichever response it comes from; else a response counts once, if all its tests pass.
    """

    texts: tuple[str, ...]
    files: Mapping[str, str]
    ids: tuple[str, ...]
    every_test_counts: bool


@dataclass(frozen=True)
class PytestRun:
    """What came of tests. Nothing has passed in a run that did not end in time.

    own: whether each id has passed. passed: how many tests, not those with an error around them. succeeded:
    whether pytest's exit status is 0. seconds: by the clock.
    """

    own: tuple[bool, ...]
    passed: int = 0
    succeeded: bool = False
    seconds: float = 0.0


def pytest_job(program: str, tests: WrittenTests, seconds: float, *flags: str) -> Job:
    """The tests on a program of the function, with pytest's `flags`."""
    files = {"mod.py": f"{HEADER}\n{program}"}
    files |= {name: f"{HEADER}{IMPORT_ALL}\n{text}" for name, text in tests.files.items()}
    limits = Limits(seconds, seconds, seconds, memory_mb=MEMORY_MB)
    arguments = ", ".join(map(repr, flags))
    return Job(f"FILES = {files!r}\nIDS = {tests.ids!r}\n{_PROGRAM}", (f"run({arguments})",), limits)


def read_run(execution: Execution, tests: WrittenTests) -> PytestRun:
    """What came of such a job."""
    (outcome,) = execution.outcomes
    if outcome.value is None:
        return PytestRun((False,) * len(tests.ids))
    status, own, passed, seconds = ast.literal_eval(outcome.value)
    return PytestRun(tuple(map(bool, own)), passed, status == 0, seconds)
