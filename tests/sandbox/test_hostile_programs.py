from pathlib import Path

import pytest
from program_files import read_programs

from sandbox import JudgeJob, Limits, SandboxPool, Test


def programs(file: str) -> dict[str, tuple[str, list[str]]]:
    """By name, each program of a file next to the tests, and how its tests may end."""
    sections = read_programs(Path(__file__).with_name(file)).values()
    found = [(*head.rpartition(": "), program) for section in sections for head, program in section.items()]
    return {name: (program, allowed.split("|")) for name, _, allowed, program in found}


PROGRAMS = programs("hostile_programs.txt")
ARRAYS = programs("hostile_arrays.txt")
HONEST = "def f(x):\n    return x + 1\n"
TESTS = (Test("f(1)", "2"), Test("f(2)", "3"))


def descendants(pid: int) -> list[int]:
    """The processes under `pid`, as the host sees them."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found = [pid]
    for ancestor in found:
        found += [child for child, parent in parents.items() if parent == ancestor]
    return found[1:]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hostile_program_gets_its_true_verdict_and_harms_nobody(jail: SandboxPool, name: str):
    assert_judged_as_it_is(jail, *PROGRAMS[name])
    assert [len(descendants(pid)) for pid in jail.worker_pids] == [1, 1]


@pytest.mark.parametrize("name", ARRAYS)
def test_a_hostile_array_gets_its_true_verdict_and_harms_nobody(numpy_jail: SandboxPool, jail, name: str):
    assert_judged_as_it_is(numpy_jail, *ARRAYS[name], jail.limits)


def assert_judged_as_it_is(jail: SandboxPool, program: str, allowed: list[str], limits: Limits | None = None) -> None:
    """Its tests end in one of the ways that are allowed, and those of honest programs after it pass."""
    hostile, *honest = jail.judge([JudgeJob(program, TESTS, limits)] + [JudgeJob(HONEST, TESTS)] * 3)
    statuses = [verdict.status.value for verdict in hostile.tests]
    assert set(statuses) <= set(allowed), hostile
    assert all(verdict.passed for verdicts in honest for verdict in verdicts.tests)
    assert jail.restarts == 0


# What a program can read of itself, as texts.
TEXTS = """
import gc, os, sys
def texts():
    frame = sys._getframe()
    while frame:
        yield repr(frame.f_locals) + repr(frame.f_globals)
        frame = frame.f_back
    for thing in gc.get_objects() + list(sys.modules.values()):
        try: yield repr(thing) + repr(getattr(thing, '__dict__', ''))
        except BaseException: pass
    for fd in range(64):
        try: yield repr(os.pread(fd, 10**6, 0))
        except OSError: pass
    yield repr(dict(os.environ)) + repr(sys.argv)
    for path in ('/proc/self/mem', '/proc/self/maps', '/proc/1/environ'):
        try: yield open(path).read()
        except OSError: pass
"""
SEARCH = f"""{TEXTS}
FOUND = any('1174-rewsna' in text[::-1] for text in texts())  # backwards: this text is not the answer's
def f(x):
    return '1174-rewsna'[::-1] if FOUND else 'nothing'
"""


def test_no_process_that_runs_a_program_holds_an_expected_value(jail: SandboxPool):
    (verdicts,) = jail.judge([JudgeJob(SEARCH, (Test("f(1)", '"answer-4711"'),))])
    assert verdicts.tests[0].value == '"nothing"'
    assert not verdicts.tests[0].passed


def test_no_program_finds_what_an_earlier_one_left(jail: SandboxPool):
    leave = (
        "import os, sys, builtins\nbuiltins.mark = 1\nsys.mark = 1\nos.environ['MARK'] = '1'\nos.umask(0)\n"
        "def f(x):\n    return 1"
    )
    look = (
        "import os, sys, builtins\ndef f(x):\n"
        "    return [hasattr(builtins, 'mark'), hasattr(sys, 'mark'), 'MARK' in os.environ, os.umask(0)]"
    )
    jail.judge([JudgeJob(leave, (Test("f(1)", "1"),))] * 4)
    for verdicts in jail.judge([JudgeJob(look, (Test("f(1)", "[0, 0, 0, 18]"),))] * 4):
        assert verdicts.tests[0].passed, verdicts
