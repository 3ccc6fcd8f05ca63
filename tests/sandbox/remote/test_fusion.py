import asyncio
import subprocess
import sys

import pytest
from aiohttp import web
from test_server import DOUBLE, running

from data_pipeline import Problem
from sandbox import CheckJob, Job, Limits, SandboxError, Task
from sandbox.remote.fusion import FusionJudge


def fusion_service(status: str = "") -> web.Application:
    """A stand-in that runs code as SandboxFusion answers it."""

    def run(fields: dict) -> dict:
        command = [sys.executable, "-c", fields["code"]]
        try:
            options = {"capture_output": True, "encoding": "utf-8", "errors": "replace"}
            done = subprocess.run(command, check=False, timeout=fields["run_timeout"], **options)
        except subprocess.TimeoutExpired as error:
            output = (error.stdout or b"").decode()
            return {"status": "TimeLimitExceeded", "return_code": None, "stdout": output, "execution_time": 1.0}
        finished = {"return_code": done.returncode, "stdout": done.stdout, "execution_time": 0.1}
        return {"status": "Finished", **finished}

    async def answer(request: web.Request) -> web.Response:
        if status:
            return web.json_response({"status": status, "message": "no room", "run_result": None})
        result = await asyncio.get_running_loop().run_in_executor(None, run, await request.json())
        ok = result["status"] == "Finished" and result["return_code"] == 0
        return web.json_response({"status": "Success" if ok else "Failed", "run_result": result})

    app = web.Application()
    app.router.add_post("/run_code", answer)
    return app


def test_a_sandbox_fusion_service_judges_too():
    program = """
import os
print("=7")
def f(x):
    if x == 2: os._exit(0)
    if x == 3:
        while True: pass
    if x == 4: os.abort()
    return x * 2
"""
    limits = Limits(call_seconds=0.2, program_seconds=4)
    with running(fusion_service()) as address, FusionJudge([address], limits=limits) as judge:
        (execution,) = judge.execute([Job(program, tuple(f"f({x})" for x in range(6)))])
        checks = judge.execute([CheckJob(DOUBLE, f"def check(f): assert f(1) == {n}", "f") for n in (2, 3)])
    assert [outcome.value for outcome in execution.outcomes] == ["0", "2", None, None, None, "10"]
    statuses = [outcome.status.value for outcome in execution.outcomes]
    assert statuses[2:5] == ["crashed", "timed out", "crashed"]
    assert [result.passed for result in checks] == [True, False]


def test_lists_are_linked_there_as_well():
    solution = "def f(head: 'ListNode') -> 'ListNode':\n    return head.next"
    problem = Problem("f", "?", solution, "f", ())
    with running(fusion_service()) as address, FusionJudge([address]) as judge:
        (execution,) = judge.execute([Job(problem.driven(solution), ("f([1, 2, 3])",))])
    assert [outcome.value for outcome in execution.outcomes] == ["[2, 3]"]


def test_a_program_that_stops_its_timer_has_timed_out_there_as_well():
    program = "import signal\ndef f():\n    signal.setitimer(signal.ITIMER_PROF, 0)\n    while True: pass\n"
    limits = Limits(call_seconds=0.2, program_seconds=0.9)
    with running(fusion_service()) as address, FusionJudge([address], limits=limits) as judge:
        (execution,) = judge.execute([Job(program, ("f()",))])
    assert execution.outcomes[0].status.value == "timed out"


STREAM = """
import os
x = int(input())
if x == 1: print("é", x / 3)
if x == 2: print(2, flush=True), os._exit(1)
if x == 3: print(3, flush=True), os._exit(2)
if x == 4: print(4, flush=True), os.abort()
if x == 5:
    print(5, flush=True)
    while True: pass
if x == 6: raise ValueError("é")
if x == 7: exit()
if x == 8: os.write(1, b"\\xff")
if x == 9: import time; print(9, flush=True); time.sleep(1000)
"""


def test_a_sandbox_fusion_service_runs_programs_that_read_standard_input():
    limits = Limits(call_seconds=0.2, program_seconds=1.2, wall_factor=1.5)
    jobs = [Job(STREAM, tuple(f"{x}\n" for x in range(9)), task=Task.STREAM), Job(STREAM, ("9\n",), task=Task.STREAM)]
    jobs += [Job(program, inputs, task=Task.STREAM) for program in ("x = (", "x = 1") for inputs in (("1",), ())]
    reference = Job(STREAM, ("1\nnever read",), is_reference=True, task=Task.STREAM)
    with running(fusion_service()) as address, FusionJudge([address], limits=limits) as judge:
        execution, asleep, *parsed, read = judge.execute([*jobs, reference])
    ends = ["returned", "returned", "raised", "out of memory", "crashed", "timed out", "raised", "returned", "returned"]
    assert [outcome.status.value for outcome in execution.outcomes] == ends
    values = [outcome.value for outcome in execution.outcomes if outcome.value is not None]
    assert values == ["[]", '["\\xe9", 0.3333333333333333]', "[]", '["\\ufffd"]']
    assert asleep.outcomes[0].status.value == "timed out"
    assert [(each.valid, len(each.outcomes)) for each in parsed] == [(False, 1), (False, 0), (True, 1), (True, 0)]
    assert (read.outcomes[0].value, read.outcomes[0].inputs) == (values[1], f"1 never read {values[1]}")


def test_an_outage_of_sandbox_fusion_raises_and_is_no_verdict():
    with running(fusion_service("SandboxError")) as address:
        judge = FusionJudge([address])
        with judge, pytest.raises(SandboxError, match="no room"):
            judge.execute([Job(DOUBLE, ("f(1)",))])
