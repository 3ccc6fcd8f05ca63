import dataclasses
import json

import pytest
from aiohttp import web
from service import answer_to, get, running

from codea1_judge.judge import Judge
from sandbox import (
    CheckJob,
    Job,
    JudgeJob,
    Limits,
    ReferenceCache,
    SandboxError,
    SandboxPool,
    SandboxUnavailable,
    Task,
    Test,
    Tolerance,
)
from sandbox.remote import client
from sandbox.remote.client import RemoteJudge
from sandbox.remote.server import make_app

DOUBLE = "def f(x):\n    return x * 2\n"


def test_a_remote_judge_answers_as_the_pool_does(jail: SandboxPool):
    jobs = [
        Job(DOUBLE, ("f(1)", "f('a')", "f(None)")),
        Job("1 / 0", ("f(1)",)),
        Job("def f():\n    while True: pass", ("f()",), Limits(call_seconds=0.1)),
        Job("def sum(x): return '\\ud800é'", ("sum([1])",), entry_point="sum"),
    ]
    tests = (Test("f(1)", "2"), Test("f(2)", "5"))
    checks = [CheckJob(DOUBLE, "assert f(2) == 4", "f"), CheckJob(DOUBLE, "assert f(2) == 5", "f", in_process=True)]
    with running(make_app(jail, "secret")) as address, RemoteJudge(address, token="secret") as remote:
        there, here = remote.execute(jobs), jail.execute(jobs)
        assert [(e.loaded, e.outcomes) for e in there] == [(e.loaded, e.outcomes) for e in here]
        assert [verdict.passed for verdict in remote.judge([JudgeJob(DOUBLE, tests)])[0].tests] == [True, False]
        assert [result.passed for result in remote.execute(checks)] == [True, False]
        health = json.loads(get(address + "/health"))
        assert (health["status"], health["waiting"]) == ("ok", 0) and "each process" in health["memory_limit"]
        assert ReferenceCache(remote).memory_limit == health["memory_limit"] == jail.memory_limit


def test_a_remote_judge_runs_streams_as_the_pool_does(jail: SandboxPool):
    program = "x = input()\nprint(x, '\\ud800' if x == '2' else '\\u00e9', 1 / (x != '3'))"
    inputs = ("1\n", "2\n", "3\n", "\ud800\n", "\u00e9\nnever read", "1" * 100_000)
    jobs = [Job(program, inputs, is_reference=ref, task=Task.STREAM) for ref in (False, True)]
    jobs += [Job("x = (", ("1",), task=Task.STREAM), Job("", task=Task.STREAM)]
    tests = tuple(Test(each, '["1", "\\xe9", 1]', tolerance=Tolerance(1e-7)) for each in inputs[:2])
    with running(make_app(jail)) as address, RemoteJudge(address) as remote:
        there, here = remote.execute(jobs), jail.execute(jobs)
        assert [(e.loaded, e.outcomes) for e in there] == [(e.loaded, e.outcomes) for e in here]
        inputs_read = [outcome.inputs.removesuffix(f" {outcome.value}") for outcome in there[1].outcomes]
        assert inputs_read == ["1", "", "", "", "\u00e9", "1" * 100_000]
        assert (
            remote.judge([JudgeJob(program, tests, task=Task.STREAM)])[0].tests
            == jail.judge([JudgeJob(program, tests, task=Task.STREAM)])[0].tests
        )
        body = json.dumps({**dataclasses.asdict(jobs[0]), "task": "song"}).encode()
        assert answer_to(f"{address}/execute", body)[0] == 400


def test_a_judge_without_the_token_is_refused_at_once(jail: SandboxPool, monkeypatch: pytest.MonkeyPatch):
    with running(make_app(jail, "secret")) as address:
        for token in ("", "guess"):
            with pytest.raises(SandboxUnavailable, match="another token: set CODEA1_SANDBOX_TOKEN"):
                RemoteJudge(address, token=token)
        monkeypatch.setenv("CODEA1_SANDBOX_TOKEN", "secret")
        Judge(address=address).close()


def test_where_no_judge_answers_one_line_says_what_to_do():
    with pytest.raises(
        SandboxUnavailable, match=r"no judge answers at http://127[^ ]*: start one with `codea1 sandbox serve`"
    ):
        RemoteJudge("http://127.0.0.1:9")


@pytest.mark.parametrize("address", ["127.0.0.1:8787", "ftp://127.0.0.1", "http://", "http://a:b", "http://a:99999"])
def test_what_is_not_an_address_is_refused(address: str):
    with pytest.raises(SandboxUnavailable, match="http://host:port"):
        RemoteJudge(address)


def test_an_outage_raises_and_is_no_verdict(jail: SandboxPool, monkeypatch):
    with running(make_app(jail)) as address:
        remote = RemoteJudge(address)
    monkeypatch.setattr(client, "PATIENCE", 0.4)
    with remote, pytest.raises(SandboxError, match=r"http://.* did not take the job in 0 s; the last: .*refused"):
        remote.execute([Job(DOUBLE, ("f(1)",))])


def test_after_an_error_nothing_more_is_asked(jail: SandboxPool):
    slow = Job("def f():\n    while True: pass", ("f()",), Limits(call_seconds=0.2))
    futures = []
    with (
        running(make_app(jail)) as address,
        pytest.raises(KeyboardInterrupt),
        RemoteJudge(address, connections=1) as remote,
    ):
        futures += [remote.submit(slow) for _ in range(50)]
        raise KeyboardInterrupt
    with pytest.raises(SandboxError, match="stopped"):
        futures[-1].result()


def test_connections_are_kept_and_bounded(jail: SandboxPool):
    seen = set()

    @web.middleware
    async def note(request: web.Request, handler) -> web.StreamResponse:
        seen.add(request.get_extra_info("peername"))
        return await handler(request)

    app = make_app(jail)
    app.middlewares.append(note)
    with running(app) as address, RemoteJudge(address, connections=2) as remote:
        assert len(remote.execute([Job(DOUBLE, ("f(1)",))] * 40)) == 40
    assert len(seen) <= 2


def test_submitting_waits_while_too_many_requests_are_pending(jail: SandboxPool, monkeypatch):
    monkeypatch.setattr(client, "_PENDING", 2)
    slow = Job("def f():\n    while True: pass", ("f()",), Limits(call_seconds=0.1))
    with running(make_app(jail)) as address, RemoteJudge(address, connections=1) as remote:
        futures = []
        for _ in range(5):
            futures.append(remote.submit(slow))
            assert sum(not future.done() for future in futures) <= 3
