"""Generated problems with programs whose verdicts are known by construction, test by test."""

import itertools
import random
from collections.abc import Callable
from statistics import fmean

import pytest

from sandbox import Job, JudgeJob, Limits, SandboxPool, Task, Test, Tolerance
from sandbox.streams import encode_output

LIMITS = Limits(call_seconds=0.3, program_seconds=20, memory_mb=256)
READ = (
    "n = int(input())\na = list(map(int, input().split()))\n",
    "import sys\ninput = sys.stdin.readline\nn = int(input())\na = [int(x) for x in input().split()]\n",
    "import sys\nn, *a = map(int, sys.stdin.read().split())\n",
    "import sys\nn, *a = [int(x) for line in sys.stdin for x in line.split()]\n",
    "import sys\nn, *a = map(int, sys.stdin.buffer.read().split())\n",
    "n, *a = map(int, open(0).read().split())\n",
    "import os\nn, *a = map(int, os.read(0, os.fstat(0).st_size).split())\n",
)
# What is asked of a list, as a program finds it and as this test does: lists of what is printed.
ASKED: tuple[tuple[str, Callable[[list[int]], list]], ...] = (
    ("out = [0]\nfor x in a: out[0] += x\n", lambda a: [sum(a)]),
    ("out = [0]\nfor x in a:\n    if not x & 1: out[0] += 1\n", lambda a: [len([x for x in a if x % 2 == 0])]),
    ("out = []\nfor x in a: out.append(max([x, *out[-1:]]))\n", lambda a: list(itertools.accumulate(a, max))),
    ("out = a[:]\nout.sort()\n", sorted),
    ("out = []\nwhile a[len(out):]: out.append(a[-1 - len(out)])\n", lambda a: list(reversed(a))),
    ("out = ['YES' if a == a[::-1] else 'NO']\n", lambda a: ["YES" if a == list(reversed(a)) else "NO"]),
    ("out = [sum(a) / len(a)]\n", lambda a: [fmean(a)]),
    ("out = [f'{x / 3:.9f}' for x in a]\n", lambda a: [x / 3 for x in a]),
    ("out = [chr(0x1F600 + abs(x)) for x in a]\n", lambda a: [chr(0x1F600 + abs(x)) for x in a]),
)
WRITE = (
    "print(*out)\n",
    "for x in out: print(x)\n",
    "import sys\nsys.stdout.write('\\n'.join(map(str, out)))\n",
    "import os\nos.write(1, ' '.join(map(str, out)).encode())\n",
    "import atexit\natexit.register(print, *out, sep='\\n\\n')\n",
    "import threading\nthreading.Thread(target=print, args=out).start()\n",
    "import os\nif os.fork(): os.wait()\nelse: print(*out)\n",
)
# What a program does on some of the inputs, before it writes its output or after it, and how such a test must end.
FAULTS = (
    ("pass", "pass", "passed"),
    ("out = [f'  {x} ' for x in out]", "print('\\n')", "passed"),
    ("out.append(0)", "pass", "failed"),
    ("out.pop()", "pass", "failed"),
    ("out[-1] = 'no'", "pass", "failed"),
    ("pass", "print('done')", "failed"),
    ("out = []", "pass", "failed"),
    ("out = ['0 ' * 99_999]", "pass", "failed"),
    ("1 // 0", "pass", "raised"),
    ("pass", "raise SystemExit(1)", "raised"),
    ("pass", "print('6' * 2**22, flush=True)", "raised"),
    ("import sys; sys.setrecursionlimit(50); (f := lambda: f())()", "pass", "raised"),
    ("import os; os.abort()", "pass", "crashed"),
    ("x = [0] * 10**9", "pass", "out of memory"),
    ("pass", "while True: pass", "timed out"),
)


def generated(rng: random.Random, number: int) -> tuple[JudgeJob, list[str], Job, list[str]]:
    """A program and its tests, and how each must end; the same without a fault, as a reference, and its outputs."""
    asked, truth = rng.choice(ASKED)
    read, write = rng.choice(READ), rng.choice(WRITE)
    before, after, status = FAULTS[number % len(FAULTS)]
    lists = [[rng.randint(-99, 99) for _ in range(rng.randint(1, 9))] for _ in range(3)]
    expected = [encode_output(" ".join(map(str, truth(a)))) for a in lists]
    inputs = [f"{len(a)}\n{' '.join(map(str, a))}\n" for a in lists]
    faulty = f"{read}fault = a[0] > 0\n{asked}if fault:\n    {before}\n{write}if fault:\n    {after}\n"
    tests = tuple(map(Test, inputs, expected, ("",) * 3, (Tolerance(1e-7, 1e-7),) * 3))
    ends = [status if a[0] > 0 else "passed" for a in lists]
    reference = Job(read + asked + write, tuple(inputs), LIMITS, is_reference=True, task=Task.STREAM)
    return JudgeJob(faulty, tests, LIMITS, task=Task.STREAM), ends, reference, expected


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.long)])
def test_every_generated_program_gets_the_verdicts_that_it_was_made_for(pool: SandboxPool, count: int):
    rng = random.Random(0)
    jobs, ends, references, expected = zip(*(generated(rng, number) for number in range(count)), strict=True)
    for job, each, verdicts in zip(jobs, ends, pool.judge(jobs), strict=True):
        assert [verdict.status.value for verdict in verdicts.tests] == each, (job.program, verdicts)
    for job, values, execution in zip(references, expected, pool.execute(references), strict=True):
        same = [Tolerance(1e-7).same(o.value or "", value) for o, value in zip(execution.outcomes, values, strict=True)]
        assert all(same), (job.program, execution)
        assert all(outcome.inputs for outcome in execution.outcomes)
    assert pool.restarts == 0
