"""Programs and tests in, verdicts out."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache
from typing import Self

import sandbox
from data_pipeline import Problem
from data_pipeline.golden import golden_line, read_golden_test, stream_line
from data_pipeline.source_code import function_under_test, parse
from data_pipeline.verdicts import own_tests, submit_program
from sandbox import CheckJob, CheckResult, Limits, Rejected, SandboxPool, Task, Test, Verdicts
from sandbox.remote.bearer import read_token
from sandbox.remote.client import RemoteJudge

Tests = Problem | Sequence[str] | Sequence[Sequence[str]] | Sequence[Mapping[str, str]]
"""Asserts; pairs of an input and an output, or rows {input, output}; or a problem: its check, else its golden tests."""

_REMEMBERED = 1_024  # suites whose stated values are kept: a question is usually judged many times in a row


class Judge:
    """Judges programs in jails of this machine, or at an `address` (``http://host:port``): `codea1-judge serve`.

    `workers` is the number of jails, or of connections; `limits` are those of programs that are judged without their
    own; `preload` names packages of this environment that programs may import. `backend` is "auto" (the jail, or
    SandboxUnavailable), or "process": limits, but no jail.
    """

    def __init__(
        self,
        workers: int | None = None,
        limits: Limits | None = None,
        preload: Sequence[str] = (),
        backend: sandbox.BackendName = "auto",
        address: str = "",
        token: str = "",
    ) -> None:
        """Raises SandboxUnavailable where programs cannot be judged; its message names what is missing."""
        if address:
            self._judge: sandbox.Judge = RemoteJudge(address, token or read_token(), limits, workers)
        else:
            self._judge = SandboxPool(workers, backend, limits, preload)
        self._read = lru_cache(_REMEMBERED)(self._read_tests)

    def judge(self, program: str, tests: Tests, entry_point: str = "", limits: Limits | None = None) -> Verdicts:
        """The verdict on each test, in order. Raises what `submit` does, and SandboxError."""
        return self.submit(program, tests, entry_point, limits).result()

    def submit(
        self, program: str, tests: Tests, entry_point: str = "", limits: Limits | None = None
    ) -> Future[Verdicts]:
        """The verdicts as a future, which raises SandboxError where the judge, not the program, failed.

        `entry_point` names the function that asserts call; by default the first that they call. Raises ValueError for
        a test that is not in the language of tests: none is left out silently.
        """
        if not isinstance(program, str):
            raise ValueError(f"a program is a text, not {type(program).__name__}")
        problem, read = self._read(_tests(tests), entry_point)
        return submit_program(self._judge, problem, program, read, limits)

    def check(self, program: str, check: str, entry_point: str, limits: Limits | None = None) -> CheckResult:
        """How a dataset's own check of a program ended: code with `check(candidate)`, unittest classes or asserts.

        It runs in a process of its own, which calls the program's function in another. Raises SandboxError.
        """
        return self._judge.execute([CheckJob(program, check, entry_point, limits)])[0]

    def close(self) -> None:
        self._judge.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._judge.__exit__(kind, error, trace)

    def _read_tests(
        self, tests: Problem | tuple[str | tuple[str, ...], ...], entry_point: str
    ) -> tuple[Problem, tuple[Test, ...] | None]:
        problem = tests if isinstance(tests, Problem) else problem_of(tests, entry_point)
        read = own_tests(self._judge, problem)
        if read == ():
            raise ValueError("no tests were given")
        return problem, read


def _tests(given: object) -> Problem | tuple[str | tuple[str, str], ...]:
    if isinstance(given, Problem):
        return given
    if not isinstance(given, list | tuple):
        raise ValueError(f"tests are a list or a Problem, not {type(given).__name__}")
    return tuple(map(_test, given))


def _test(given: object) -> str | tuple[str, str]:
    match given:
        case str():
            return given
        case {"input": str(read), "output": str(printed), **rest} if not rest:
            return read, printed
        case (str(read), str(printed)) if not printed.lstrip().startswith("assert "):  # which no program prints
            return read, printed
    raise ValueError(
        f"a test is an assert, or of a program the texts (INPUT, OUTPUT) or {{'input': TEXT, 'output': TEXT}}, "
        f"not {given!r:.80}"
    )


def problem_of(tests: Sequence[str | tuple[str, ...]], entry_point: str = "") -> Problem:
    """A problem that consists of its tests. Raises ValueError for one that is not a test."""
    if all(isinstance(test, tuple) for test in tests):
        lines = [stream_line(given, expected) for given, expected in tests]
        return Problem("", "", "", "", tuple(lines), task=Task.STREAM)
    if not all(isinstance(test, str) for test in tests):
        raise ValueError("tests are asserts, or pairs of an input and an output")
    statements = [each for test in tests for each in parse(str(test), "a test").body]
    name = entry_point or function_under_test(statements)
    if not name:
        raise ValueError("the tests do not tell which function they are about: pass entry_point")
    read = [read_golden_test(statement, name) for statement in statements]
    rejected = next((test for test in read if isinstance(test, Rejected)), None)
    if rejected:
        where = f"test {read.index(rejected) + 1} of {len(read)}: {rejected.reason}"
        raise ValueError(f"{where} (tests of a class are those of a Problem, which codea1_judge.load reads)")
    return Problem("", "", "", name, tuple(golden_line(test) for test in read if not isinstance(test, Rejected)))
