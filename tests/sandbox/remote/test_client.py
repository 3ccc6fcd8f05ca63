"""What a client makes of a service that fails: it asks again, and takes nothing for a result that is none."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from aiohttp import web
from service import running
from test_server import DOUBLE

from sandbox import Job, SandboxError
from sandbox.remote import client
from sandbox.remote.client import RemoteJudge

JOB = Job(DOUBLE, ("f(1)", "f('a')"))
VALUES = ["2", '"aa"']
RESULT = {
    "loaded": {"status": "returned", "value": None, "detail": "", "inputs": ""},
    "outcomes": [{"status": "returned", "value": value, "detail": "", "inputs": ""} for value in VALUES],
    "cpu_seconds": 0.1,
}


def edited(**changes: object) -> Callable[[], web.Response]:
    return lambda: web.json_response({**RESULT, **changes})


def outcome(**changes: object) -> dict[str, object]:
    return {**RESULT["outcomes"][0], **changes}


GARBAGE: dict[str, Callable[[], web.StreamResponse]] = {
    "nothing": web.Response,
    "a page": lambda: web.Response(text="<html>It works!</html>"),
    "half": lambda: web.Response(text=json.dumps(RESULT)[:-9]),
    "a list": lambda: web.json_response([RESULT]),
    "bytes": lambda: web.Response(body=b"\xff\xfe\x00" * 99),
    "deep": lambda: web.Response(text="[" * 100_000),
    "an outcome too few": edited(outcomes=RESULT["outcomes"][:1]),
    "an outcome too many": edited(outcomes=RESULT["outcomes"] * 2),
    "a status that is none": edited(outcomes=[outcome(status="great")] * 2),
    "a verdict": edited(outcomes=[outcome(status="passed", value=None)] * 2),
    "a value of what raised": edited(outcomes=[outcome(status="raised")] * 2),
    "no value of what returned": edited(outcomes=[outcome(value=None)] * 2),
    "numbers": edited(outcomes=[outcome(value=2)] * 2),
    "more than there is": edited(passed=True),
    "moved": lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:9"}),
    "an error": lambda: web.Response(status=500),
    "busy": lambda: web.Response(status=429),
    "slow": lambda: web.Response(status=408),
}


@contextmanager
def service(job: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Iterator[RemoteJudge]:
    """A client of a service that is healthy and answers jobs so."""

    async def health(_request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "authorized": True})

    app = web.Application()
    app.router.add_post("/execute", job)
    app.router.add_get("/health", health)
    with running(app) as address, RemoteJudge(address) as judge:
        yield judge


@contextmanager
def answering(*answers: Callable[[], web.StreamResponse]) -> Iterator[tuple[RemoteJudge, list[web.Request]]]:
    """A client of a service that gives these answers in turn, the last of them from then on; the requests it got."""
    got: list[web.Request] = []

    async def job(request: web.Request) -> web.StreamResponse:
        got.append(request)
        return answers[min(len(got), len(answers)) - 1]()

    with service(job) as judge:
        yield judge, got


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_no_result_and_the_job_is_sent_again(name: str, monkeypatch):
    monkeypatch.setattr(client, "_FIRST_PAUSE", 0.01)
    with answering(GARBAGE[name], edited()) as (judge, got):
        assert [each.value for each in judge.execute([JOB])[0].outcomes] == VALUES
    assert len(got) == 2


def test_where_only_garbage_comes_the_job_fails_with_its_reason(monkeypatch):
    monkeypatch.setattr(client, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(client, "PATIENCE", 0.3)
    with (
        answering(GARBAGE["half"]) as (judge, got),
        pytest.raises(SandboxError, match="the last: not the answer of a judge"),
    ):
        judge.execute([JOB])
    assert len(got) > 2


def test_an_answer_that_does_not_come_is_no_verdict(monkeypatch):
    monkeypatch.setattr(client, "PATIENCE", 0.3)

    async def job(_request: web.Request) -> web.StreamResponse:
        return await asyncio.Future()  # cancelled when the client hangs up

    with service(job) as judge, pytest.raises(SandboxError, match="timed out"):
        judge.execute([JOB])


def test_an_answer_that_breaks_off_is_none(monkeypatch):
    monkeypatch.setattr(client, "_FIRST_PAUSE", 0.01)
    got = []

    async def job(request: web.Request) -> web.StreamResponse:
        got.append(request)
        if len(got) > 1:
            return edited()()
        forged = json.dumps({**RESULT, "outcomes": [outcome(value="forged")] * 2}).encode()
        response = web.StreamResponse(headers={"Content-Length": str(len(forged) + 99)})
        await response.prepare(request)
        await response.write(forged)
        assert request.transport is not None
        request.transport.close()
        return response

    with service(job) as judge:
        assert [each.value for each in judge.execute([JOB])[0].outcomes] == VALUES
    assert len(got) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 413])
def test_a_job_that_is_refused_fails_at_once(status: int):
    with (
        answering(lambda: web.Response(status=status, text="too long")) as (judge, got),
        pytest.raises(SandboxError, match=rf"refuses the job \({status} too long\)"),
    ):
        judge.execute([JOB])
    assert len(got) == 1


def test_pauses_between_attempts_grow():
    with answering(*[GARBAGE["an error"]] * 5, edited()) as (judge, _):
        waits: list[float] = []
        judge._stopped.wait = waits.append  # type: ignore[assignment]
        assert judge.execute([JOB])[0].valid
    assert len(waits) == 5
    assert all(0.05 * 2**n <= wait <= 0.1 * 2**n for n, wait in enumerate(waits))
