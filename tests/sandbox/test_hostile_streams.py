import tracemalloc

import pytest
from test_hostile_programs import TEXTS, descendants, programs

from sandbox import Job, JudgeJob, SandboxPool, Status, Task, Test
from sandbox.streams import encode_output

PROGRAMS = programs("hostile_streams.txt")
HONEST = "input()\nprint(sum(map(int, input().split())))\n"
TESTS = (Test("3\n1 2 3\n", "[6]"), Test("2\n10 -3\n", "[7]"))


def streams(program: str, tests: tuple[Test, ...] = TESTS) -> JudgeJob:
    return JudgeJob(program, tests, task=Task.STREAM)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hostile_stream_gets_its_true_verdict_and_harms_nobody(jail: SandboxPool, name: str):
    program, allowed = PROGRAMS[name]
    tests = TESTS[:1] if allowed == ["timed out"] else TESTS
    hostile, *honest = jail.judge([streams(program, tests), *[streams(HONEST)] * 3])
    assert {verdict.status.value for verdict in hostile.tests} <= set(allowed), hostile
    assert all(verdict.passed for verdicts in honest for verdict in verdicts.tests)
    assert jail.restarts == 0
    assert [len(descendants(pid)) for pid in jail.worker_pids] == [1, 1]


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("x = " + "(" * 90 + "1" + ")" * 90, Status.FAILED),
        ("x = " + "[" * 100_000, Status.RAISED),
        ("x = " + "-" * 100_000 + "1", Status.OUT_OF_MEMORY),  # as Python's parser reports it
        ("x = " + "+".join("1" * 50_000), Status.RAISED),
        ("x" + ".a" * 50_000, Status.RAISED),
        ("x = [" + "1," * 3_000_000 + "]", Status.OUT_OF_MEMORY),
        ("\0", Status.RAISED),
        ("'\ud800'", Status.RAISED),
    ],
    ids=["nested", "nested too deeply", "deep unary", "deep sum", "deep attribute", "long", "NUL", "surrogate"],
)
def test_a_program_that_is_hard_to_compile_costs_itself_alone(jail: SandboxPool, program: str, status: Status):
    hostile, honest = jail.judge([streams(program), streams(HONEST)])
    assert {verdict.status for verdict in hostile.tests} <= {status, Status.TIMED_OUT}
    assert all(verdict.passed for verdict in honest.tests)


SEARCH = f"""{TEXTS}
secrets = ['1174-rewsna', 'tupni-rehto', '1174-retfa']  # backwards: these texts are not what is looked for
print([secret[::-1] in text for secret in secrets for text in texts()].count(True))
"""


def test_no_process_holds_an_expected_output_or_the_input_of_another_test(jail: SandboxPool):
    inputs = "other-input", "after-4711", "its own"
    (verdicts,) = jail.judge([streams(SEARCH, tuple(Test(text, '["answer-4711"]') for text in inputs))])
    assert [verdict.value for verdict in verdicts.tests][-1] == "[0]"
    assert all(int((verdict.value or "")[1:-1]) for verdict in verdicts.tests[:2])  # each found its own


LEAVE = """
import builtins, os, sys
def is_open(fd):
    try: return bool(os.fstat(fd))
    except OSError: return False
print(hasattr(builtins, 'mark'), hasattr(sys, 'mark'), 'MARK' in os.environ, os.umask(0), os.listdir('/tmp'))
print(os.fstat(0).st_size, *filter(is_open, range(64)))
builtins.mark = sys.mark = 1
os.environ['MARK'] = '1'
open('/tmp/mark', 'w').write(input())
os.write(0, b'more')
"""


def test_no_run_finds_what_an_earlier_one_left(jail: SandboxPool):
    jobs = [Job(LEAVE, ("a\n", "b\n", "c\n"), task=Task.STREAM)] * 4
    values = {outcome.value for execution in jail.execute(jobs) for outcome in execution.outcomes}
    assert values == {'["False", "False", "False", 18, "[]", 2, 0, 1, 2]'}


def test_a_flood_takes_little_memory_of_the_host():
    flood = "10 " * (1 << 18)
    tracemalloc.start()
    assert encode_output(flood).startswith("sha256:")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 << 20
