"""Attacks on the judge that once succeeded."""

import subprocess
import sys
import tracemalloc

import pytest

from sandbox import Job, Limits, SandboxPool, Status, language
from sandbox.host.stateless import keeps_no_state

LEFT_OVER = """
def g():
    try:
        yield 1
    finally:
        n = 0
        for i in range(20_000_000):
            n += i
def f(x):
    if x == 0:
        items = [it := g()]
        next(it)
        items.append(items)
        return 0
    return len([[i] for i in range(100_000)])
"""


def test_programs_of_millions_of_characters_are_neither_parsed_nor_kept():
    tracemalloc.start()
    for i in range(4):
        assert not keeps_no_state(f"x = [{'1, ' * 500_000}]\ndef f():\n    return {i}")
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1 << 20
    assert peak < 20 << 20


def test_what_a_call_leaves_to_the_garbage_collector_costs_the_next_call_no_time(jail: SandboxPool):
    together, alone = jail.execute([Job(LEFT_OVER, ("f(0)", "f(1)")), Job(LEFT_OVER, ("f(1)",))])
    assert alone.outcomes[0].status is Status.RETURNED
    assert together.outcomes[1].status is Status.RETURNED


@pytest.mark.parametrize(
    "suite",
    [
        "x = f(a=x)\nassert f(a=x) == 1",
        "x0 = 1\n" + "".join(f"x{i + 1} = f(a=x{i}, b=x{i})\n" for i in range(40)) + "assert f(a=x40) == 1",
    ],
    ids=["cycle", "doubling"],
)
def test_names_bound_to_calls_do_not_stop_the_reader_of_a_suite(suite: str):
    read = f"""
import ast, resource
from sandbox.language import parse_test
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
*bound, test = ast.parse({suite!r}).body
print(parse_test(test, "f", {{b.targets[0].id: b.value for b in bound}}))
"""
    done = subprocess.run([sys.executable, "-c", read], check=True, capture_output=True, text=True)
    assert "Rejected" in done.stdout


def test_arguments_are_the_same_for_reference_and_program(jail: SandboxPool):
    program = "def f(x):\n    return x"
    calls = tuple(f"f([{i}, str(zip())])" for i in range(4))  # the text of an address
    first, second = jail.execute(
        [Job(program, calls, is_reference=True), Job(program, ("f(str(map(int, ())))", *calls))]
    )
    assert [o.value for o in first.outcomes] == [o.value for o in second.outcomes[1:]]


def test_a_view_of_an_iterator_tells_no_address(jail: SandboxPool):
    (execution,) = jail.execute([Job("def f(x):\n    yield x", ("str(f(1))",))])
    assert " at 0x" not in (execution.outcomes[0].value or "")


def test_inputs_of_many_items_are_compared(jail: SandboxPool):
    spelled = tuple(f"f([1] * ({90_000} + {i} - {i}))" for i in range(2))
    limits = Limits(call_seconds=3, load_seconds=3, program_seconds=20)
    (execution,) = jail.execute([Job("def f(xs):\n    return sum(xs)", spelled, limits, is_reference=True)])
    first, second = execution.outcomes
    assert first.value == second.value == "90000"
    assert first.inputs == second.inputs != ""


def test_a_process_that_answers_nothing_is_not_replaced_again_and_again(jail: SandboxPool):
    program = """
import os, stat
for fd in range(3, 64):
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            os.write(fd, b"=None\\n~\\n~\\n")
    except OSError:
        pass
os._exit(0)
"""
    (execution,) = jail.execute([Job(program, ("f(1)", "f(2)"))])
    assert execution.outcomes[0].status is Status.CRASHED
    assert execution.cpu_seconds < 1


def test_values_that_views_look_at_take_little_memory_of_the_host(jail: SandboxPool):
    calls = tuple(f"len(f({1_000_000 + i}))" for i in range(40))
    tracemalloc.start()
    (execution,) = jail.execute([Job("def f(n):\n    return 'a' * n", calls)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert execution.outcomes[-1].value == "1000039"
    assert peak < 20 << 20


def test_large_arguments_of_one_call_leave_the_others_their_memory():
    large = tuple(f"f(['{letter}{i}' * 1000] * 950)" for letter in "abcdef" for i in range(16))
    tracemalloc.start()
    with SandboxPool(workers=1, backend="nsjail", limits=Limits(memory_mb=128)) as pool:
        (execution,) = pool.execute([Job("def f(xs):\n    return len(xs)", (*large, "f([1] * 90_000)", "f([1])"))])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [o.value for o in execution.outcomes] == ["950"] * len(large) + ["90000", "1"]
    assert peak < 64 << 20


def test_calls_that_were_read_take_less_than_half_a_gigabyte_of_the_host():
    size = language.read_call.cache_info().maxsize or 0
    tracemalloc.start()
    for i in range(100):
        language.read_call(f"f({'é' * 4_700!r} '{chr(0x1F600) * 4_700}', {i + 10**12})", "f")
    each = tracemalloc.get_traced_memory()[0] / 100
    tracemalloc.stop()
    assert each * size < 1 << 29
