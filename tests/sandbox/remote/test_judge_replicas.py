"""How a client treats several replicas: real services and sockets, each with one fault."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from aiohttp import web
from service import running
from test_server import DOUBLE

from sandbox import Job, SandboxError, SandboxPool, SandboxUnavailable
from sandbox.remote import client, hedging, race, replicas
from sandbox.remote.client import RemoteJudge
from sandbox.remote.hedging import Hedging
from sandbox.remote.server import make_app

JOB = Job(DOUBLE, ("f(1)", "f('a')"))
VALUES = ["2", '"aa"']
RESULT = {
    "loaded": {"status": "returned", "value": None, "detail": "", "inputs": ""},
    "outcomes": [{"status": "returned", "value": value, "detail": "", "inputs": ""} for value in VALUES],
    "cpu_seconds": 0.1,
}


def answering(answer: Callable[[], web.StreamResponse], taken: list[str] | None = None) -> web.Application:
    """A service that is healthy, and answers all jobs alike."""

    async def job(request: web.Request) -> web.StreamResponse:
        if taken is not None:
            taken.append(request.host)
        return answer()

    async def health(_request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "authorized": True})

    app = web.Application()
    app.router.add_post("/execute", job)
    app.router.add_get("/health", health)
    return app


@contextmanager
def silent(healthy: bool) -> Iterator[tuple[str, list[bytes]]]:
    """A service that takes jobs and never answers them, and its /health only if healthy; the requests it got."""
    got: list[bytes] = []
    opened: list[socket.socket] = []
    health = json.dumps({"status": "ok"}).encode()
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(health), health)

    def serve(connection: socket.socket) -> None:
        with suppress(OSError):  # the test's end closes it
            while request := connection.recv(1 << 16):
                got.append(request)
                if healthy and request.startswith(b"GET"):
                    connection.sendall(reply)

    def take() -> None:
        while True:
            try:
                opened.append(server.accept()[0])
            except OSError:
                return
            threading.Thread(target=serve, args=(opened[-1],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=take, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", got
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for each in opened:
                each.close()


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
    "not found": lambda: web.Response(status=404),
    "an error": lambda: web.Response(status=500),
    "busy": lambda: web.Response(status=429),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_no_result_and_another_replica_gives_it(jail: SandboxPool, name: str):
    taken: list[str] = []
    with running(answering(GARBAGE[name], taken)) as bad, running(make_app(jail)) as good:
        with RemoteJudge([bad, good], connections=2) as judge:
            for execution in judge.execute([JOB] * 8):
                assert [each.value for each in execution.outcomes] == VALUES
        assert 1 <= len(taken) < 8  # it was asked, and left alone after that


def test_a_right_answer_in_the_same_form_is_taken():
    with running(answering(edited())) as address, RemoteJudge([address]) as judge:
        assert [each.value for each in judge.execute([JOB])[0].outcomes] == VALUES


@pytest.mark.parametrize("declared", ["Content-Length: 999", "Transfer-Encoding: chunked"])
def test_an_answer_that_breaks_off_is_none(jail: SandboxPool, declared: str):
    whole = json.dumps({**RESULT, "outcomes": [outcome(value="forged")] * 2}).encode()
    body = b"%x\r\n%s\r\n" % (len(whole), whole) if "chunked" in declared else whole

    def serve(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.recv(1 << 16)
                connection.sendall(f"HTTP/1.1 200 OK\r\n{declared}\r\n\r\n".encode() + body)

    with socket.create_server(("127.0.0.1", 0)) as server, running(make_app(jail)) as good:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        with RemoteJudge([f"http://127.0.0.1:{server.getsockname()[1]}", good], connections=1) as judge:
            values = [[each.value for each in execution.outcomes] for execution in judge.execute([JOB] * 4)]
        server.shutdown(socket.SHUT_RDWR)
    assert values == [VALUES] * 4


def test_jobs_leave_a_replica_that_hangs(jail: SandboxPool, monkeypatch):
    monkeypatch.setattr(replicas, "STALL_SECONDS", 0.3)
    monkeypatch.setattr(race, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(hedging, "_BURST", 0.0)  # no job may be sent twice
    monkeypatch.setattr(hedging, "_FIRST_SECONDS", 0.1)
    with (
        silent(healthy=False) as (hanging, got),
        running(make_app(jail)) as good,
        RemoteJudge([hanging, good], connections=4) as judge,
    ):
        assert all(execution.valid for execution in judge.execute([JOB] * 40))
    assert any(request.startswith(b"POST /execute") for request in got)


def test_what_is_late_is_sent_to_one_more_replica_and_no_more_than_the_share_allows(jail: SandboxPool, monkeypatch):
    monkeypatch.setattr(hedging, "_BURST", 2.0)
    monkeypatch.setattr(hedging, "_FIRST_SECONDS", 0.1)
    monkeypatch.setattr(client, "PATIENCE", 1.0)
    with (
        silent(healthy=True) as (slow, got),
        silent(healthy=True) as (other, also),
        RemoteJudge([slow, other], connections=4) as judge,
    ):
        for future in [judge.submit(JOB) for _ in range(4)]:
            with pytest.raises(SandboxError, match="no answer came in time"):
                future.result()
    monkeypatch.undo()
    monkeypatch.setattr(hedging, "_BURST", 2.0)
    posts = [request for request in (*got, *also) if request.startswith(b"POST")]
    assert len(posts) == 4 + 2
    with (
        silent(healthy=True) as (slow, _),
        running(make_app(jail)) as good,
        RemoteJudge([slow, good], connections=2) as judge,
    ):
        assert all(execution.valid for execution in judge.execute([JOB] * 20))


def test_a_connection_that_another_thread_takes_first_is_replaced():
    class Taken(list):  # as `while self._idle` and another thread's `pop` meet
        def __bool__(self) -> bool:
            return True

    with running(answering(web.Response)) as address:
        (replica,) = replicas.Replicas([address], {})
        replica._idle = Taken()
        assert json.loads(replica.get("/health"))["status"] == "ok"
        replica._idle = []


def test_late_is_the_slowest_hundredth_and_one_in_a_hundred_may_be_sent_twice():
    pace = Hedging()
    for _ in range(10):
        assert pace.allows()
    for each in range(1_000):
        assert not pace.allows() or each % 100 < 2
        pace.answered(each % 100 / 100)
    assert pace.late == pytest.approx(0.98, abs=0.011)
    for _ in range(5_000):
        pace.answered(7.0)
    assert pace.late == 7.0
    assert sum(pace.allows() for _ in range(100)) == 10


def test_jobs_go_where_the_fewest_wait(jail: SandboxPool):
    with running(make_app(jail)) as one, running(make_app(jail)) as two:
        fleet = replicas.Replicas([one, two], {})
        chosen = [fleet.choose() for _ in range(6)]
        assert {each.address: each.jobs for each in fleet} == {one: 3, two: 3}
        first = next(iter(fleet))
        for each in chosen:
            if each is first:
                fleet.release(each)
        assert [fleet.choose() for _ in range(3)] == [first] * 3


def test_a_name_stands_for_all_its_addresses_and_new_ones_are_found(jail: SandboxPool, monkeypatch):
    monkeypatch.setattr(replicas, "_FIND_SECONDS", 0.0)
    known = ["127.0.0.1"]
    lookup = socket.getaddrinfo

    def resolve(host, port, *more, **options):
        if host != "judge.fleet":
            return lookup(host, port, *more, **options)
        if not known:
            raise socket.gaierror("no answer")
        return [found for each in known for found in lookup(each, port, *more, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with ExitStack() as stack:
        taken: dict[str, list[str]] = {"127.0.0.1": [], "127.0.0.2": []}
        address = stack.enter_context(running(answering(edited(), taken["127.0.0.1"])))
        port = int(address.rpartition(":")[2])
        judge = stack.enter_context(RemoteJudge([f"http://judge.fleet:{port}"], connections=1))
        judge.execute([JOB] * 2)
        known.append("127.0.0.2")
        stack.enter_context(running(answering(edited(), taken["127.0.0.2"]), port=port, host="127.0.0.2"))
        judge.execute([JOB] * 4)
        assert [len(each) for each in taken.values()] == [4, 2]
        assert {host for hosts in taken.values() for host in hosts} == {f"judge.fleet:{port}"}
        known.clear()  # names cannot be looked up
        judge.execute([JOB] * 2)
        known.append("127.0.0.2")  # the first replica is gone
        judge.execute([JOB] * 2)
        assert [len(each) for each in taken.values()] == [5, 5]


def test_a_job_that_two_replicas_refuse_is_refused(jail: SandboxPool):
    def app() -> web.Application:
        return answering(lambda: web.Response(status=413, text="too long"))

    with running(app()) as one, running(app()) as two, running(app()) as three:
        for addresses in ([one], [one, two, three]):
            with (
                RemoteJudge(addresses) as judge,
                pytest.raises(SandboxError, match=r"refuses the job \(413\): too long"),
            ):
                judge.execute([JOB])


def test_the_token_may_stand_in_the_address_and_is_not_shown(jail: SandboxPool):
    with running(make_app(jail, "a secret")) as address:
        with RemoteJudge([address.replace("//", "//any:a%20secret@")]) as judge:
            assert judge.execute([JOB])[0].valid
        with pytest.raises(SandboxUnavailable, match="another token") as refusal:
            RemoteJudge([address.replace("//", "//any:wrong@")])
        assert "wrong" not in str(refusal.value)


@pytest.mark.parametrize("address", ["127.0.0.1:8787", "ftp://127.0.0.1", "http://", "http://a:b", "http://a:99999"])
def test_what_is_not_an_address_is_refused(address: str):
    with pytest.raises(SandboxUnavailable, match="http://host:port"):
        RemoteJudge([address])
