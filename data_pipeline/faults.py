"""What is wrong with a file of problems, line by line."""

from dataclasses import dataclass
from pathlib import Path

from data_pipeline import problem_files
from data_pipeline.golden import read_golden_tests
from data_pipeline.problem import Problem
from data_pipeline.rows import numbered_rows
from data_pipeline.sources import find_format
from data_pipeline.statements import not_equality
from data_pipeline.validate import NO_SOLUTION, failures
from sandbox import Judge, Task
from sandbox.language import read_call


@dataclass(frozen=True)
class Fault:
    """What is wrong with one line (or row, in a file without lines), counted from 1; `id` is empty if it is unknown."""

    line: int
    id: str
    reason: str


@dataclass(frozen=True)
class Report:
    """The number of good problems to train on, and the faults in the order of the lines.

    unsolved: problems without a solution, to evaluate on alone. dropped: tests of good problems that are left out.
    """

    problems: int
    unsolved: int
    faults: tuple[Fault, ...]
    dropped: tuple[Fault, ...] = ()


def find_faults(path: str | Path, judge: Judge) -> Report:
    """Reads every line separately, and runs every solution against its tests.

    Raises ValueError if the file as a whole cannot be read, and sandbox.SandboxError if the sandbox itself fails.
    """
    rows = list(numbered_rows(path))
    row_format = find_format([row for _, row in rows]) or problem_files.FORMAT
    lines: dict[str, int] = {}
    problems: list[Problem] = []
    faults: list[Fault] = []
    dropped: list[Fault] = []
    for line, row in rows:
        loaded = row_format.read([row])
        faults += [Fault(line, "" if each.id == "row 1" else each.id, each.reason) for each in loaded.refused]
        for problem in loaded.problems:
            if lines.setdefault(problem.id, line) != line:
                faults.append(Fault(line, problem.id, f"the same id as line {lines[problem.id]}"))
                continue
            problems.append(problem)
            dropped += [Fault(line, problem.id, test.reason) for test in loaded.dropped]
    reasons = [*zip(problems, failures(problems, judge), strict=True), *((p, _not_equality(p)) for p in problems)]
    unsolved = {problem.id for problem, reason in reasons if reason == NO_SOLUTION}
    failed = [Fault(lines[p.id], p.id, reason) for p, reason in reasons if reason not in (None, NO_SOLUTION)]
    of_failed = {fault.id for fault in failed}
    return Report(
        len(problems) - len(of_failed | unsolved),
        len(unsolved - of_failed),
        tuple(sorted([*faults, *failed], key=lambda fault: fault.line)),
        tuple(fault for fault in dropped if fault.id not in of_failed),
    )


def _not_equality(problem: Problem) -> str | None:
    words = None if problem.checker or problem.check else not_equality(problem.question)
    tests = [] if words is None else read_golden_tests(problem)
    if not tests or (problem.task is not Task.STREAM and all(read_call(t.call, problem.called).view for t in tests)):
        return None
    fix = "give a checker" if problem.task is Task.STREAM else "write tests of sorted(...) or another view"
    return f"equality cannot judge it: the question says {words!r}; {fix}"
