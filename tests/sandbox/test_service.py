import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from aiohttp import web

from sandbox import CheckJob, Job, JudgeJob, Limits, SandboxError, SandboxPool, SandboxUnavailable, Test
from sandbox.remote import RemoteJudge
from sandbox.service import make_app, serve

DOUBLE = "def f(x):\n    return x * 2\n"


@contextmanager
def running(app: web.Application) -> Iterator[str]:
    """The address of an application that serves while the block lasts."""
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(app)
    loop.run_until_complete(runner.setup())
    site = web.TCPSite(runner, "127.0.0.1", 0)
    loop.run_until_complete(site.start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def get(address: str) -> str:
    with urllib.request.urlopen(address) as response:
        return response.read().decode()


def test_a_remote_judge_answers_as_the_pool_does(jail: SandboxPool):
    jobs = [
        Job(DOUBLE, ("f(1)", "f('a')", "f(None)")),
        Job("1 / 0", ("f(1)",)),
        Job("def f():\n    while True: pass", ("f()",), Limits(call_seconds=0.1)),
        Job("def sum(x): return '\\ud800é'", ("sum([1])",), entry_point="sum"),
    ]
    tests = (Test("f(1)", "2"), Test("f(2)", "5"))
    checks = [CheckJob(DOUBLE, "assert f(2) == 4", "f"), CheckJob(DOUBLE, "assert f(2) == 5", "f", beside=True)]
    with running(make_app(jail, "secret")) as address, RemoteJudge([address], token="secret") as remote:
        there, here = remote.execute(jobs), jail.execute(jobs)
        assert [(e.loaded, e.outcomes) for e in there] == [(e.loaded, e.outcomes) for e in here]
        assert [verdict.passed for verdict in remote.judge([JudgeJob(DOUBLE, tests)])[0].tests] == [True, False]
        assert [result.passed for result in remote.check(checks)] == [True, False]
        assert json.loads(get(address + "/health"))["status"] == "ok"
        assert 'sandbox_jobs_total{kind="check"} 2' in get(address + "/metrics")


def test_without_the_token_nothing_runs(jail: SandboxPool):
    with running(make_app(jail, "secret")) as address:
        for token in ("", "guess"):
            with RemoteJudge([address], token=token) as remote, pytest.raises(SandboxError, match="401"):
                remote.execute([Job(DOUBLE, ("f(1)",))])


def test_a_dead_address_is_passed_over_and_no_address_is_an_error(jail: SandboxPool):
    with running(make_app(jail)) as address, RemoteJudge(["http://127.0.0.1:9", address]) as remote:
        assert [e.outcomes[0].value for e in remote.execute([Job(DOUBLE, ("f(1)",))] * 4)] == ["2"] * 4
    with pytest.raises(SandboxUnavailable, match="sandbox serve"):
        RemoteJudge(["http://127.0.0.1:9"])


def test_an_outage_raises_and_is_no_verdict(jail: SandboxPool):
    with running(make_app(jail)) as address:
        remote = RemoteJudge([address], attempts=2)
    with remote, pytest.raises(SandboxError, match="2 attempts"):
        remote.execute([Job(DOUBLE, ("f(1)",))])


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"program": 1, "calls": [], "limits": null, "entry_point": ""}', b"\xff",
     b'{"program": "", "calls": ["f.__globals__"], "limits": null, "entry_point": ""}',
     b'{"program": "", "calls": [], "limits": {"memory_mb": -1}, "entry_point": ""}'],
)  # fmt: skip
def test_a_malformed_request_is_refused(jail: SandboxPool, body: bytes):
    with running(make_app(jail)) as address, pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(address + "/execute", body))
    assert caught.value.code == 400


def test_the_service_does_not_open_itself_to_others_without_a_token(jail: SandboxPool):
    with pytest.raises(ValueError, match="token"):
        serve(jail, host="0.0.0.0")
