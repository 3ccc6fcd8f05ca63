"""Models under evaluation: policies of ours and endpoints answer the same asks."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from scripted import PROMPTS, TOKENIZER, Scripted

from codea1_jax.evals import endpoint
from codea1_jax.evals.endpoint import EndpointError, find_endpoint
from codea1_jax.evals.generators import Talker, TestAsk
from codea1_jax.evals.policies import PolicyModel
from codea1_jax.evals.prompts import chat_asks, messages, plain_asks
from codea1_jax.rollout import Sampling
from codea1_jax.run.config import ConfigError
from data_pipeline import Problem

PROBLEM = Problem("p", "Add one.", "def f(x):\n    return x + 1", "f", ())
OTHER = Problem("q", "Add two.", "def f(x):\n    return x + 2", "f", ())
SUITE = TestAsk(PROBLEM, "def f(x): return x")
ROUND = TestAsk(PROBLEM, PROBLEM.solution, ("assert f(1) == 2", "assert f(2) == 3"), 2)
SAMPLING = Sampling(64, 0.7, 0.95)


def test_a_round_shows_the_function_and_the_tests_written_before():
    system, user = messages(ROUND, 8)
    assert (system["role"], user["role"]) == ("system", "user")
    for part in (PROBLEM.question, PROBLEM.solution, *(ROUND.known or ()), "different from those written before"):
        assert part in user["content"]
    first = messages(TestAsk(PROBLEM, PROBLEM.solution, ()), 8)[1]["content"]
    assert "before" not in first
    assert "8 different tests" in messages(SUITE, 8)[1]["content"]
    assert "`f`" in messages(PROBLEM, 8)[1]["content"]


def test_small_models_go_on_with_the_tests_written_before():
    prompt = plain_asks(TOKENIZER, PROMPTS)
    assert prompt(PROBLEM) == PROMPTS.code("Add one.", "f")
    assert prompt(SUITE) == PROMPTS.test("Add one.", "f", SUITE.program)
    before = PROMPTS.test("Add one.", "f", PROBLEM.solution)
    assert TOKENIZER.decode(prompt(ROUND)[len(before) :]) == "assert f(1) == 2\nassert f(2) == 3\n"
    assert prompt(ROUND)[: len(before)] == before


def test_a_policys_random_stream_is_the_asks_own_whatever_else_is_asked():
    prompt = plain_asks(TOKENIZER, PROMPTS)
    asks = [PROBLEM, OTHER, SUITE, ROUND]
    speaker = Scripted({prompt(ask): [f"response {i}", "another"] for i, ask in enumerate(asks)})
    model = PolicyModel(speaker, prompt, TOKENIZER.decode, (7,))
    assert dict(model(asks, 2)) == {i: (f"response {i}", "another") for i in range(4)}
    together = {request.prompt: request.stream for request in speaker.asked}
    assert len(set(together.values())) == 4
    assert all(stream[0] == 7 for stream in together.values())
    speaker.asked.clear()
    list(model([OTHER], 2))
    assert speaker.asked[0].stream == together[prompt(OTHER)]


def test_responses_are_read_as_in_the_game():
    def respond(asks, samples):
        yield 0, ("Here:\n```python\nx = 1\n```",) * samples
        yield 1, ("assert f(1) == 2\nassert g(1) == 2",) * samples

    assert dict(Talker(respond).programs([PROBLEM, OTHER], 1))[0] == ("x = 1\n",)
    ((test,),) = dict(Talker(respond).tests([SUITE, ROUND], 1))[1]
    assert (test.call, test.stated) == ("f(1)", "2")


def test_conversations_become_tokens_by_the_chat_template():
    assert chat_asks(TOKENIZER, 8)(PROBLEM) == TOKENIZER.encode_chat(messages(PROBLEM, 8))


class Server(ThreadingHTTPServer):
    """Chat completions of `given` texts at a time; the first `busy` requests meet a full house."""

    def __init__(self) -> None:
        self.requests: list[dict] = []
        self.keys: list[str | None] = []
        self.given, self.busy, self.status = 8, 0, 200
        super().__init__(("127.0.0.1", 0), Answer)


class Answer(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self._send(200, {"data": [{"id": "served"}]})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.append(self.headers["Authorization"])
        if self.server.busy:
            self.server.busy -= 1
            self._send(503, {"error": "busy"})
            return
        self.server.requests.append(request)
        texts = [f"{request['seed']} {i}" for i in range(min(self.server.given, request["n"]))]
        self._send(self.server.status, {"choices": [{"message": {"content": text}} for text in texts]})

    def _send(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(endpoint, "PAUSE", 0.01)
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def address(server):
    return f"http://127.0.0.1:{server.server_port}"


def test_an_endpoint_is_asked_until_it_has_given_every_sample(server):
    server.given, server.busy = 2, 2
    model = find_endpoint(address(server), None, SAMPLING, 8, "secret")
    answers = dict(model([PROBLEM, OTHER, ROUND], 5))
    assert [len(answers[i]) for i in range(3)] == [5, 5, 5]
    assert len({text for texts in answers.values() for text in texts}) == 15  # other seeds, other texts
    assert {(r["model"], r["temperature"], r["top_p"], r["max_tokens"]) for r in server.requests} == {
        ("served", 0.7, 0.95, 64)
    }
    assert set(server.keys) == {"Bearer secret"}
    assert messages(PROBLEM, 8) in [request["messages"] for request in server.requests]


def test_an_endpoint_that_refuses_says_why_and_one_that_is_away_is_an_outage(server):
    model = find_endpoint(f"{address(server)}/v1/", "mine", SAMPLING, 8)
    server.status = 404
    with pytest.raises(ConfigError, match="refuses: 404"):
        list(model([PROBLEM], 1))
    server.status, server.given = 200, 0
    with pytest.raises(EndpointError, match="without choices"):
        list(model([PROBLEM], 1))
    server.busy = 100
    with pytest.raises(EndpointError, match="does not answer: 503"):
        list(model([PROBLEM], 1))
