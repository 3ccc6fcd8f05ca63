"""The service under clients that mean it harm, or know no better: each is refused, and honest jobs are judged on."""

import asyncio
import contextlib
import dataclasses
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from service import answer_to, running
from test_server import DOUBLE
from waiting import wait_for

from sandbox import Job, Limits, SandboxError, SandboxPool, SandboxUnavailable, Task
from sandbox.host import worker_thread
from sandbox.remote import http_service, server
from sandbox.remote.client import RemoteJudge
from sandbox.remote.server import make_app

HONEST = Job(DOUBLE, ("f(1)",), Limits())
SPIN = Job("def f():\n    while True: pass", ("f()",), Limits(call_seconds=0.4))
ROOT = Path(__file__).parents[3]


def post(address: str, body: bytes, **headers: str) -> tuple[int, str, dict[str, str]]:
    """Status, text and headers of the answer to a job."""
    return answer_to(f"{address}/execute", body, **headers)


def health(address: str) -> tuple[int, dict]:
    status, text, _ = answer_to(f"{address}/health")
    return status, json.loads(text)


def as_body(job: Job = HONEST, **changes: object) -> bytes:
    return json.dumps(dataclasses.asdict(job) | changes).encode()


def judges(address: str, token: str = "") -> bool:
    """Whether an honest job is judged there."""
    status, text, _ = post(address, as_body(), **({"Authorization": f"Bearer {token}"} if token else {}))
    return status == 200 and json.loads(text)["outcomes"][0]["value"] == "2"


def connect(address: str, data: bytes = b"") -> socket.socket:
    parts = urlsplit(address)
    connection = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60)
    with contextlib.suppress(ConnectionError):
        connection.sendall(data)
    return connection


def hung_up(connection: socket.socket) -> bool:
    """Waits until the service closes the connection."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


# --- half of a request --------------------------------------------------------------------------------

HALF = {
    "nothing": b"",
    "half a line": b"POST /exec",
    "half a header": b"POST /execute HTTP/1.1\r\nHost: a\r\nContent-",
    "headers without an end": b"GET /health HTTP/1.1\r\nHost: a\r\nX: y\r\n",
    "half a body": b"POST /execute HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{",
    "half a second request": b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /hea",
    "another protocol": bytes.fromhex("16030100c2010000be0303") + bytes(30),
}


@pytest.mark.parametrize("name", HALF)
def test_half_sent_requests_do_not_hold_up_honest_jobs(jail: SandboxPool, name: str):
    with running(make_app(jail)) as address, ExitStack() as stack:
        for _ in range(90):
            stack.enter_context(connect(address, HALF[name]))
        with RemoteJudge(address, connections=2) as remote:
            for execution in remote.execute([HONEST] * 20):
                assert execution.outcomes[0].value == "2"
        assert health(address)[0] == 200


# --- time and room ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in HALF if name != "half a body"])
def test_who_sends_no_complete_request_is_hung_up_on(jail: SandboxPool, monkeypatch, name: str):
    monkeypatch.setattr(http_service, "IDLE_SECONDS", 0.3)
    with running(make_app(jail)) as address, connect(address, HALF[name]) as connection:
        assert hung_up(connection)


def test_headers_that_come_in_drop_by_drop_gain_no_time(jail: SandboxPool, monkeypatch):
    monkeypatch.setattr(http_service, "IDLE_SECONDS", 0.3)
    with running(make_app(jail)) as address, connect(address, b"GET /health HTTP/1.1\r\n") as connection:
        with pytest.raises(ConnectionError):
            for number in range(6000):
                connection.sendall(b"X-%d: y\r\n" % number)
                time.sleep(0.01)
        assert hung_up(connection)


def test_a_body_that_does_not_come_in_is_answered_408(jail: SandboxPool, monkeypatch):
    monkeypatch.setattr(http_service, "TRANSFER_SECONDS", 0.2)
    monkeypatch.setattr(http_service, "LINGER_SECONDS", 0.2)
    with running(make_app(jail)) as address, connect(address, HALF["half a body"]) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 408")
        assert hung_up(connection)


def test_an_answer_that_nobody_reads_is_dropped(jail: SandboxPool, monkeypatch):
    monkeypatch.setattr(http_service, "TRANSFER_SECONDS", 0.5)
    calls = tuple(f"f({index})" for index in range(4_000))
    body = as_body(Job("def f(x):\n    return 'a' * 1900", calls, Limits(file_bytes=1 << 24, program_seconds=60)))
    request = b"POST /execute HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    transports: list[asyncio.Transport] = []

    @web.middleware
    async def note(request: web.Request, handler) -> web.StreamResponse:
        assert request.transport is not None
        transports.append(request.transport)
        return await handler(request)

    app = make_app(jail)
    app.middlewares.append(note)
    with running(app) as address, connect(address, request + body) as connection:
        wait_for(lambda: transports and transports[0].is_closing())
        received = 0
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(1 << 20):
                received += len(part)
        assert received < 7_600_000


def test_too_many_jobs_are_told_to_come_back_and_a_judge_does():
    with (
        SandboxPool(workers=1, pending=1) as pool,
        running(make_app(pool)) as address,
        ThreadPoolExecutor(8) as threads,
        RemoteJudge(address, connections=8) as remote,
    ):
        answers = list(threads.map(lambda _: post(address, as_body(SPIN)), range(8)))
        assert {status for status, *_ in answers} == {200, 429}
        assert all(headers["Retry-After"] == "1" for status, _, headers in answers if status == 429)
        assert all(execution.valid for execution in remote.execute([HONEST] * 8))


def test_requests_hold_no_more_memory_than_they_may(jail: SandboxPool, monkeypatch):
    monkeypatch.setattr(server, "MAX_REQUESTS", 2_000)
    with running(make_app(jail)) as address, ThreadPoolExecutor(8) as threads:
        status, text, headers = post(address, as_body(program="#" * 3_000))
        assert (status, headers["Retry-After"]) == (429, "1"), text
        spin = as_body(dataclasses.replace(SPIN, program=SPIN.program + "#" * 600))
        statuses = {status for status, *_ in threads.map(lambda _: post(address, spin), range(8))}
        assert statuses == {200, 429}
        assert judges(address)


def test_under_overload_every_answer_is_a_right_result_or_a_refusal():
    def one(number: int) -> tuple[int, str]:
        status, text, _ = post(address, as_body(calls=[f"f({number})"]))
        return status, json.loads(text)["outcomes"][0]["value"] if status == 200 else text

    with (
        SandboxPool(workers=1, pending=2) as pool,
        running(make_app(pool)) as address,
        ThreadPoolExecutor(16) as threads,
    ):
        answers = list(threads.map(one, range(64)))
    assert {status for status, _ in answers} == {200, 429}
    assert all(text == str(2 * i) for i, (status, text) in enumerate(answers) if status == 200)


def test_a_request_of_many_calls_takes_what_its_limits_say(jail: SandboxPool):
    """Calls whose values are looked into take turns, a few at a time; each turn could use all that the job may."""
    slow = "import time\ndef f(x):\n    end = time.process_time() + 0.1\n    while time.process_time() < end: pass\n"
    limits = Limits(call_seconds=0.3, program_seconds=0.5)
    body = as_body(Job(f"{slow}    return [x]", tuple(f"len(f({i})) + {i}" for i in range(5_000)), limits))
    with running(make_app(jail)) as address:
        status, text, _ = post(address, body)
    answer = json.loads(text)
    ends = [outcome["status"] for outcome in answer["outcomes"]]
    assert (status, len(ends), ends[-1]) == (200, 5_000, "timed out")
    assert answer["cpu_seconds"] < 2 * 0.5 + 0.5


def test_calls_of_too_many_characters_are_refused_before_they_are_parsed(jail: SandboxPool, monkeypatch):
    monkeypatch.setattr(server, "MAX_CHARACTERS", 9)
    with running(make_app(jail)) as address:
        assert post(address, as_body(Job(DOUBLE, ("f(1)", "f(10)"))))[0] == 200
        status, text, _ = post(address, as_body(Job(DOUBLE, ("f(10)", "f(10)"))))
        assert status == 400 and "at most 9 characters" in text
        assert post(address, as_body(Job("print(1)", ("1" * 10,), task=Task.STREAM)))[0] == 200


def test_calls_that_take_long_to_parse_hold_a_worker_no_longer_than_their_limits(jail: SandboxPool):
    long = "[" + "(0,)," * 1_500 + "]"
    calls = tuple(f"f({long}) + {i}" for i in range(500))
    with running(make_app(jail)) as address:
        status, text, _ = post(address, as_body(Job(DOUBLE, calls, Limits(program_seconds=0.1))))
    assert status == 400 and "take longer to be read than its program may run" in text


BROKEN = {
    "a method that is none": b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n" + b"\0" * 50_000,
    "a header that is none": b"GET /health HTTP/1.1\r\n\0: " + b"y" * 1_000 + b"\r\n\r\n",
    "a long header": b"GET /health HTTP/1.1\r\nHost: " + b"y" * 50_000,
    "a long address": b"GET /" + b"y" * 50_000,
    "many headers": b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 5_000,
    "two lengths": b"POST /execute HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_requests_that_are_no_http_leave_nothing_in_the_log(jail: SandboxPool, caplog, name: str):
    with running(make_app(jail)) as address:
        with connect(address, BROKEN[name]) as connection:
            assert hung_up(connection)
        assert judges(address)
    assert not caplog.records


def test_an_error_of_the_services_own_is_in_the_log(jail: SandboxPool, caplog, monkeypatch):
    monkeypatch.setattr(server, "_one_line", None)
    with running(make_app(jail)) as address:
        assert post(address, b"no job")[0] == 500
    assert "NoneType" in caplog.text


def test_who_hangs_up_before_an_answer_is_sent_leaves_nothing_in_the_log(caplog):
    class Unsendable(web.Response):
        async def prepare(self, request: web.BaseRequest) -> None:
            raise ConnectionResetError

    async def answer(request: web.Request) -> web.Response:
        return await http_service.sent(request, Unsendable())

    app = web.Application()
    app.router.add_get("/", answer)
    with running(app) as address, connect(address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as connection:
        assert hung_up(connection)
    assert not caplog.records


def test_a_body_that_is_too_long_is_not_read(jail: SandboxPool, monkeypatch):
    monkeypatch.setattr(server, "MAX_REQUEST", 1_000)
    start = b"POST /execute HTTP/1.1\r\nHost: a\r\n"
    chunks = b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + b" " * 1_001 + b"\r\n"
    with running(make_app(jail)) as address:
        for more in (b"Content-Length: 1001\r\n\r\n", chunks):
            with connect(address, start + more) as connection:
                assert connection.recv(1000).startswith(b"HTTP/1.1 413")
        assert judges(address)


def test_a_job_whose_client_has_gone_is_not_started(monkeypatch):
    with SandboxPool(workers=1) as pool, running(make_app(pool)) as address:
        submit, futures = pool.submit, []
        monkeypatch.setattr(pool, "submit", lambda job: futures.append(submit(job)) or futures[-1])
        first = pool.submit(SPIN)
        body = as_body(SPIN)
        request = b"POST /execute HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
        for _ in range(30):
            connect(address, request + body).close()
        assert first.result().valid and judges(address)
        assert sum(not future.cancelled() for future in futures) < 20


# --- what a request may say -----------------------------------------------------------------------------

FLOATS = ("call_seconds", "load_seconds", "program_seconds", "wall_factor")
INTS = ("memory_mb", "processes", "file_bytes")
NO_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e300", "1e999", "0", "-1", "true", '"1"', "null", "[1]", "{}"]
NO_NUMBERS += ["9" * 400]


def with_limit(name: str, value: str) -> bytes:
    return as_body().replace(f'"{name}": {json.dumps(getattr(Limits(), name))}'.encode(), f'"{name}": {value}'.encode())


def test_limits_that_no_program_can_have_are_refused_and_end_no_worker_thread(jail: SandboxPool):
    with running(make_app(jail)) as address:
        for name in (*FLOATS, *INTS):
            for value in (*NO_NUMBERS, *(("0.5", "1.5", "1e3") if name in INTS else ())):
                status, text, _ = post(address, with_limit(name, value))
                assert status == 400, (name, value, text)
        assert judges(address)
        assert health(address) == (200, health(address)[1] | {"status": "ok", "working": 2})


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
def test_limits_beyond_the_services_own_are_refused(jail: SandboxPool, monkeypatch, name: str):
    monkeypatch.setattr(server, "most_limits", Limits)
    with running(make_app(jail)) as address:
        most = getattr(Limits(), name)
        assert post(address, with_limit(name, str(most)))[0] == 200
        status, text, _ = post(address, with_limit(name, str(most + 1)))
        assert (status, f"limits.{name} can be at most {most} here" in text) == (400, True)


BODIES = {
    "nothing": b"",
    "nested lists": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "nested limits": as_body().replace(b'"call_seconds": 1.0', b'"call_seconds": ' + b"[" * 50_000 + b"]" * 50_000),
    "no text": b"\xff\xfe\x00",
    "text of another encoding": as_body().decode().encode("utf-16"),
    "half a character": as_body()[:-1] + b'\xc3"}',
    "millions of lists": b"[" + b"[]," * (1 << 21) + b"[]]",
    "a number": b"1",
    "null": b"null",
    "a key too many": as_body(more=1),
    "no program": json.dumps({"calls": [], "limits": None}).encode(),
    "an unknown limit": as_body(limits={**dataclasses.asdict(Limits()), "seconds": 1}),
    "a list of limits": as_body(limits=[1, 2]),
    "a program that is none": as_body(program=["def f(): pass"]),
    "calls that are none": as_body(calls=[1]),
    "a call outside the language": as_body(calls=["f.__globals__"]),
    "calls that are one": as_body(calls="f(1)"),
    "too many calls": as_body(calls=["f(1)"] * 20_001),
    "an entry point that is none": as_body(entry_point=None),
    "surrogates in a key": as_body().replace(b'"calls"', b'"\\ud800"'),
    "an integer of many digits": as_body().replace(b'"program": "', b'"program": ' + b"1" * 5_000 + b', "x": "'),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_request_of_the_wrong_form_is_refused(jail: SandboxPool, name: str):
    with running(make_app(jail)) as address:
        status, text, _ = post(address, BODIES[name])
        assert (status, text.isascii() and len(text) <= 500) == (400, True), text
        assert judges(address)


TOKENS = ["", "secre", "secrets", "schlüssel", "\x80", "secret\xe9", "ключ".encode().decode("latin-1"), "\xff" * 100]


@pytest.mark.parametrize("token", TOKENS)
def test_another_token_is_refused_whatever_its_characters(jail: SandboxPool, token: str):
    with running(make_app(jail, "secret")) as address:
        assert post(address, as_body(), Authorization=f"Bearer {token}")[0] == 401
        assert health(address)[1]["authorized"] is False
        assert judges(address, "secret")


# --- workers that cannot work ---------------------------------------------------------------------------


@contextmanager
def no_new_workers(pool: SandboxPool) -> Iterator[None]:
    """While the block lasts, nothing can be started on this host."""

    def refuse() -> None:
        raise SandboxUnavailable("no user namespaces here")

    starts = [one._start_worker for one in pool._threads]
    for one in pool._threads:
        one._start_worker = refuse  # type: ignore[assignment]
    try:
        yield
    finally:
        for one, start in zip(pool._threads, starts, strict=True):
            one._start_worker = start


def kill_worker(pool: SandboxPool, index: int) -> None:
    worker = pool._threads[index].worker
    assert worker is not None
    worker.kill()


def test_a_worker_thread_without_a_worker_takes_no_jobs_and_shows_in_health(monkeypatch):
    monkeypatch.setattr(worker_thread, "_PAUSE", 0.1)
    with SandboxPool(workers=2) as pool, running(make_app(pool)) as address, RemoteJudge(address) as remote:
        with no_new_workers(pool):
            kill_worker(pool, 0)
            jobs = [remote.submit(HONEST) for _ in range(40)]
            wait_for(lambda: pool.working == 1)
            assert all(job.result().outcomes[0].value == "2" for job in [*jobs, *map(remote.submit, [HONEST] * 20)])
            assert health(address) == (503, health(address)[1] | {"status": "degraded", "workers": 2, "working": 1})
            with RemoteJudge(address) as another:  # one worker is enough to begin with
                assert another.execute([HONEST])[0].valid
        wait_for(lambda: pool.working == 2)
        assert health(address)[0] == 200
        assert judges(address)


def test_without_any_worker_jobs_fail_at_once_and_are_judged_again_once_there_is_one(monkeypatch):
    monkeypatch.setattr(worker_thread, "_PAUSE", 0.1)
    with SandboxPool(workers=1) as pool, running(make_app(pool)) as address:
        with no_new_workers(pool):
            waiting = [pool.submit(SPIN) for _ in range(12)]
            kill_worker(pool, 0)
            for job in waiting:
                with pytest.raises(SandboxError, match="no user namespaces here"):
                    job.result(timeout=100)
            assert health(address) == (503, health(address)[1] | {"status": "down", "working": 0})
            assert post(address, as_body())[0] == 503
            with pytest.raises(SandboxUnavailable):
                RemoteJudge(address)
        wait_for(lambda: pool.working == 1)
        assert judges(address)


def test_a_judge_that_is_started_again_has_cost_time_and_no_verdict(jail: SandboxPool, caplog):
    with ExitStack() as stack:
        with running(make_app(jail)) as address:
            remote = stack.enter_context(RemoteJudge(address))
            assert remote.execute([HONEST])[0].valid
        waiting = stack.enter_context(ThreadPoolExecutor(1)).submit(remote.execute, [HONEST] * 8)
        wait_for(lambda: "no judge answers" in caplog.text)
        assert not waiting.done()
        with running(make_app(jail), port=urlsplit(address).port or 0):
            assert all(execution.valid for execution in waiting.result(timeout=60))
    assert caplog.messages[-1] == "the judge answers again"
