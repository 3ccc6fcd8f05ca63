import random
import time

import pytest

from sandbox import Execution, Job, JudgeJob, Limits, ReferenceCache, SandboxPool, Status, Task, Test, Tolerance
from sandbox.host import streams
from sandbox.host.progress import Progress
from sandbox.host.protocol import Report
from sandbox.inside.watch import NOT_CUT
from sandbox.streams import MAX_COMPARED, encode_output, input_identity

SUM = "n = int(input())\nprint(sum(list(map(int, input().split()))[:n]))\n"
NEAR = Tolerance(1e-7, 1e-7)
LONG = " ".join(map(str, range(MAX_COMPARED // 2)))


def stream(program: str, *inputs: str, limits: Limits | None = None, is_reference: bool = False) -> Job:
    return Job(program, inputs, limits, is_reference=is_reference, task=Task.STREAM)


@pytest.mark.parametrize(
    ("output", "expected", "exact", "near"),
    [
        ("3", "3", True, True),
        ("3.0", "3", True, True),
        ("3.00\n", " 3e0", True, True),
        ("-0", "0", True, True),
        ("-0.0", "0", True, True),
        ("0010", "10", False, False),
        ("+3", "3", False, False),
        ("3 ", "\n\n 3\r\n", True, True),
        ("1 2\n3", "1\n2 3", True, True),
        ("12", "1 2", False, False),
        ("", " \n", True, True),
        ("", "0", False, False),
        ("0.1", "0.10", True, True),
        ("0.10000000001", "0.1", False, True),
        ("0.1001", "0.1", False, False),
        ("3.00000001", "3", False, True),
        ("1000000000", "1000000001", False, False),
        ("1000000000.5", "1000000001.5", False, True),
        ("1e300", "1" + "0" * 300, False, False),
        ("9" * 18, "9" * 18 + ".0", False, False),
        ("123456789012345678901", "123456789012345678902", False, False),
        ("nan", "nan", True, True),  # texts, as all that is not a plain number
        ("nan", "1.5", False, False),
        ("inf", "1e999", False, False),
        ("1.5 x", "1.5000000001 x", False, True),
        ("1.5 x", "1.5000000001 y", False, False),
        ("1.5", "1.5 1.5", False, False),
        ("yes", "YES", False, False),
        ("é", "e\u0301", False, False),
        ("\u0663", "3", False, False),
        ("a\u3000b", "a b", True, True),
        ("1e18", "1000000000000000000", True, True),
        ("1" + "0" * 22, "1e22", True, True),
        ("1000000000000000000", "1000000000000000001", False, False),
        ('"3"', "3", False, False),
        ("[3]", "3", False, False),
        ("1,5", "1 5", False, False),
        ("sha256:" + "0" * 64, "0", False, False),
        ("x" * 3_000, "x" * 3_000, True, True),
        ("x" * 3_000, "x" * 2_999 + "y", False, False),
        (LONG, LONG.replace(" ", "\n"), True, True),
        (LONG, LONG[:-1] + "x", False, False),
        (LONG, LONG + " 1", False, False),
        ("\U0001f600 " * 20_000, "\U0001f600\n" * 20_000, True, True),
        ("\ud800" * MAX_COMPARED + "1", "\ud800" * MAX_COMPARED + "2", False, False),
    ],
)
def test_outputs_are_compared_token_by_token(output: str, expected: str, exact: bool, near: bool):
    assert Tolerance().same(encode_output(output), encode_output(expected)) is exact
    assert NEAR.same(encode_output(output), encode_output(expected)) is near


def test_long_outputs_of_the_same_tokens_are_one_however_they_are_spaced():
    rng = random.Random(0)
    for _ in range(4):
        tokens = ["x" * size for size in rng.choices((1, 2, 9, 70_000), (40, 40, 40, 1), k=9_000)]
        texts = ["".join(token + rng.choice((" ", "\n", "\t \r\n", " " * 50)) for token in tokens) for _ in range(2)]
        first, second, other = map(encode_output, (*texts, texts[0] + "x"))
        assert first == second != other
    assert encode_output(" " * 300_000 + "7" + "\n" * 300_000) == "[7]"


@pytest.mark.parametrize(
    ("spelled", "plain"),
    [
        ("03  1\n+7\n", "3 1 7"),
        ("-0 -007", "0 -7"),
        ("1.50 1.5 15e-1", "1.5 1.5 1.5"),
        ("7.0 7e0 1_0", "7 7 10"),
        ("\u0663 \uff13", "3 3"),
        ("nan inf 1e999 - + _1 0x10", "nan inf 1e999 - + _1 0x10"),
        ("1" * 5_000, "1" * 5_000),
        ("0" * 100_000 + "x", "0" * 100_000 + "x"),
        ("\na b\n\nc", "a b c"),
        ("[04,+5]\n(6 ,x7)", "[ 4 , 5 ] ( 6 , x7 )"),
        ("8-3 8 -3", "8 - 3 8 -3"),
        ("+" + "0" * 100_000 + "1.5x", "1 . 5x"),
    ],
)
def test_inputs_are_one_if_they_differ_in_blanks_and_spelled_numbers_alone(spelled: str, plain: str):
    started = time.process_time()
    assert input_identity(spelled) == plain
    assert time.process_time() - started < 1  # whoever writes tests chooses their length


@pytest.mark.parametrize(
    ("program", "knows"),
    [
        (SUM, True),
        (f"import sys\ninput = sys.stdin.readline\n{SUM}", True),
        (f"import sys\ninput = sys.stdin.buffer.readline\n{SUM}", True),
        (f"import sys\ninput = sys.stdin.read().split('\\n')[::-1].pop\n{SUM}", False),
        (f"input = open(0).readline\n{SUM}", False),
        (f"import sys\nfor line in sys.stdin: break\ninput = [line, next(sys.stdin)][::-1].pop\n{SUM}", False),
        (f"import mmap\ninput = mmap.mmap(0, 0, access=mmap.ACCESS_READ).readline\n{SUM}", False),
        (f"import io, sys\nsys.stdin = io.TextIOWrapper(sys.stdin.buffer)\n{SUM}", False),
        (f"{SUM}import os, sys\nsys.stdout.flush()\nif os.fork(): os.wait()\n", True),
        (f"{SUM}import os\nos.close(0)\n", False),
        (f"{SUM}import os, sys\nsys.stdout.flush()\nos.close(1)\n", False),
    ],
)
def test_what_a_reference_does_not_read_is_no_part_of_its_input(pool: SandboxPool, program: str, knows: bool):
    padded = "2\n1 2\n" + "never read \u00e9\n" * 3
    (execution,) = pool.execute([stream(program, "2\n1 2\n", padded, "2\n1 3\n", is_reference=True)])
    assert [outcome.status.value for outcome in execution.outcomes] == ["returned"] * 3
    first, second, third = [outcome.inputs for outcome in execution.outcomes]
    assert (first, third) == ("2 1 2 [3]", "2 1 3 [4]")
    assert second == (first if knows else f"{' '.join(padded.split())} [3]")
    assert [outcome.value for outcome in execution.outcomes] == ["[3]", "[3]", "[4]"]


@pytest.mark.parametrize(
    ("program", "different"),
    [
        ("import sys\nprint(sum(map(int, sys.stdin.read().split())))", 2),
        ("import sys\nfor line in sys.stdin: print(sum(map(int, line.split())))", 6),
    ],
)
def test_line_breaks_make_two_tests_of_one_where_they_matter_alone(pool: SandboxPool, program: str, different: int):
    inputs = ("2\n3 4\n", "2 3\n4\n", "2 3 4\n", "2\n3\n4\n", "\n2\n3 4\n", "2\n3 5\n", "02\n3   4")
    (execution,) = pool.execute([stream(program, *inputs, is_reference=True)])
    assert len({outcome.inputs for outcome in execution.outcomes}) == different


def test_a_reference_whose_output_leaves_no_room_is_answered_as_any_program(jail: SandboxPool):
    for room in (9, 1, 0):
        size = (1 << 22) - room
        program = f"input()\nimport os\nos.write(1, b'x' * {size})"
        reference, other = jail.execute([stream(program, "1\n2", is_reference=ref) for ref in (True, False)])
        assert reference.outcomes[0].value == other.outcomes[0].value == encode_output("x" * size)


def test_a_program_is_valid_if_it_parses_whatever_it_does_then(pool: SandboxPool):
    programs = ("1 // 0", "while True: pass", "x = (", "return 1", "x = [" + "1," * 3_000_000 + "]")
    alone = pool.execute([stream(program) for program in programs])
    assert [execution.valid for execution in alone] == [True, True, False, False, False]
    assert all(execution.outcomes == () for execution in alone)
    raised, unparsed = pool.execute([stream("1 // 0", "1", "2"), stream("x = (", "1", "2")])
    assert raised.valid and {outcome.detail for outcome in raised.outcomes} == {
        "ZeroDivisionError: integer division or modulo by zero"
    }
    assert not unparsed.valid and unparsed.outcomes == (unparsed.loaded,) * 2
    assert unparsed.loaded.detail.startswith("SyntaxError: ")


WORK = """
import os, time
seconds, in_child = map(float, input().split())
child = in_child and os.fork()
while not child and time.process_time() < seconds: pass
if child: os.waitpid(child, 0)
if child or not in_child: print(1)
"""


def test_the_time_of_a_call_is_that_of_one_run_and_all_runs_have_the_programs(jail: SandboxPool):
    each = Limits(call_seconds=0.2, load_seconds=0.01, program_seconds=60, wall_factor=10)
    whole = Limits(call_seconds=5, program_seconds=0.3, wall_factor=10)
    first, second = jail.execute(
        [stream(WORK, *["0.11 0\n"] * 3, "9 0\n", "0 0\n", limits=each), stream(WORK, *["0.2 0\n"] * 4, limits=whole)]
    )
    assert [outcome.value for outcome in first.outcomes] == ["[1]", "[1]", "[1]", None, "[1]"]
    assert [outcome.status for outcome in second.outcomes] == [Status.RETURNED, *[Status.TIMED_OUT] * 3]


def test_the_time_of_a_run_is_that_of_all_its_processes(jail: SandboxPool):
    limits = Limits(call_seconds=0.3, program_seconds=60, wall_factor=60)
    (execution,) = jail.execute([stream(WORK, "0.05 1\n", "0.4 1\n", limits=limits)])
    assert [outcome.status for outcome in execution.outcomes] == [Status.RETURNED, Status.TIMED_OUT]
    assert execution.outcomes[1].detail == "CPU time"


def test_a_reference_is_run_once_for_each_input(jail: SandboxPool):
    cache = ReferenceCache(jail)
    job = stream(SUM, "2\n1 2\n", "2\n1 3\n", "nothing", is_reference=True)
    first, again = (cache.submit(job).result() for _ in range(2))
    assert (cache.misses, cache.hits) == (3, 3)
    assert again.outcomes == first.outcomes and again.loaded == first.loaded and again.cpu_seconds == 0
    assert [outcome.status.value for outcome in again.outcomes] == ["returned", "returned", "raised"]
    more = cache.submit(stream(SUM, "2\n1 3\nnever read", is_reference=True)).result()
    assert more.outcomes[0] == first.outcomes[1]


def test_outputs_are_kept_as_long_as_there_is_room_for_all(jail: SandboxPool, monkeypatch):
    monkeypatch.setattr(streams, "_MAX_VALUES", 1_000)
    (execution,) = jail.execute([stream("print(input() * 300)", "ab", "cd", "ef", "gh")])
    assert [outcome.status.value for outcome in execution.outcomes] == ["returned", "returned", *["out of memory"] * 2]


def test_a_repeated_run_of_a_random_program_repeats_its_output(pool: SandboxPool):
    program = "import random\nprint(random.random(), len({random.random() for _ in range(9)}), hash('a'))"
    first, second = pool.execute([stream(program, "1", "2")] * 2)
    assert first.outcomes == second.outcomes
    assert first.outcomes[0] == first.outcomes[1]


def test_verdicts_are_up_to_the_tolerance_of_each_test(pool: SandboxPool):
    tests = tuple(
        Test("1", expected, tolerance=tolerance)
        for expected in ("[0.3333333]", "[1]")
        for tolerance in (NEAR, Tolerance())
    )
    (verdicts,) = pool.judge([JudgeJob("print(int(input()) / 3)", tests, task=Task.STREAM)])
    assert [verdict.passed for verdict in verdicts.tests] == [True, False, False, False]


@pytest.mark.parametrize("count", [2_000, pytest.param(200_000, marks=pytest.mark.long)])
def test_whatever_a_run_writes_is_read_as_one_outcome_per_input(count: int):
    rng = random.Random(0)
    pieces = (
        b"\n",
        b" ",
        b"0",
        b"-1",
        b"1.5",
        b"nan",
        b"\0",
        b"\0read ",
        b"\xff",
        b"\xf0\x9f\x98\x80",
        b'"',
        b"1" * 5_000,
    )
    for _ in range(count):
        job = stream("", *["1 2\n3"] * rng.randint(0, 3), is_reference=rng.random() < 0.5)
        progress, execution = Progress(job, Limits()), None
        while not isinstance(execution, Execution):
            progress.request()
            status = rng.choice((0, 0, 9, 27, 256, 512, 768, 65_280))
            execution = progress.absorb(
                Report(status, 0.1, 0.1, NOT_CUT), b"".join(rng.choices(pieces, k=rng.randint(0, 9)))
            )
        assert len(execution.outcomes) == len(job.calls)
        for outcome in (*execution.outcomes, execution.loaded):
            text = outcome.value if outcome.status is Status.RETURNED else outcome.detail
            assert text is not None and text.isascii() and (text.isprintable())
            assert outcome.inputs in ("", *(f"{read} {outcome.value}" for read in ("1 2 3", "1 2", "1")))


@pytest.mark.parametrize("size", [1 << 10, 20 << 20])
def test_an_input_of_any_size_is_read_by_its_name_as_often_as_it_is_opened(size):
    program = "for _ in range(2):\n    with open('/dev/stdin') as given: print(len(given.read()))\nprint(len(input()))"
    limits = Limits(call_seconds=10.0, memory_mb=512)
    with SandboxPool(workers=1, limits=limits) as jail:
        (result,) = jail.execute([Job(program, ("x" * size,), task=Task.STREAM)])
    assert result.outcomes[0].value == str([size] * 3), result
