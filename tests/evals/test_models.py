"""Models under evaluation: policies and endpoints answer the same requests."""

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from scripted import PROMPTS, TOKENIZER, Scripted

from codea1_jax.errors import UserError
from codea1_jax.evals.answers import endpoint
from codea1_jax.evals.answers.endpoint import EndpointError, find_endpoint, messages
from codea1_jax.evals.answers.requests import next_test_request, program_requests, suite_request
from codea1_jax.game.players import PolicyPlayer, TextPlayer
from codea1_jax.game.prompts import SCRIPT_BEGUN, chat_prompts
from codea1_jax.rollout import Sampling
from data_pipeline import Problem

PROBLEM = Problem("p", "Add one.", "def f(x):\n    return x + 1", "f", ())
OTHER = Problem("q", "Add two.", "def f(x):\n    return x + 2", "f", ())
KNOWN = ("assert f(1) == 2", "assert f(2) == 3")
PROGRAMS = program_requests([PROBLEM, OTHER], 5)
SUITE = suite_request(PROBLEM, "def f(x): return x")
ROUND = next_test_request(PROBLEM, KNOWN, 2)
SAMPLING = Sampling(64, 0.7, 0.95)


def test_a_round_shows_the_function_and_the_tests_written_before():
    system, user = messages(ROUND, 8)
    assert (system["role"], user["role"]) == ("system", "user")
    for part in (PROBLEM.question, PROBLEM.solution, *KNOWN, "different from those written before"):
        assert part in user["content"]
    first = messages(next_test_request(PROBLEM, (), 0), 8)[1]["content"]
    assert "before" not in first


def test_bigcodebenchs_problems_are_asked_for_as_their_benchmark_does_and_read_to_its_ends():
    problem = replace(PROBLEM, source="bigcodebench", question='def task_func(x):\n    """Add one."""\n')
    (request,) = program_requests([problem], 3)
    (user,) = messages(request, 8)
    assert f"```\n{problem.question.strip()}\n```" in user["content"]
    prompts = chat_prompts(TOKENIZER, 8)
    assert prompts.script is not None
    prompt = prompts.script(problem.question)
    assert prompt == TOKENIZER.encode_chat([user]) + TOKENIZER.encode(SCRIPT_BEGUN)
    code = "import math\ndef task_func(x):\n    return x + 1"
    texts = [f"{code}\n```\nIt adds one.", f"{code}\nprint(task_func(1))", code]
    player = PolicyPlayer(Scripted({prompt: texts}), prompts, TOKENIZER.decode)
    ((_, written),) = player.programs([request])
    assert [each.program for each in written] == [code] * 3


def test_small_models_continue_the_tests_written_before():
    before = PROMPTS.test("Add one.", "f", PROBLEM.solution)
    prompt = PROMPTS.next_test("Add one.", "f", PROBLEM.solution, KNOWN)
    assert prompt[: len(before)] == before
    assert TOKENIZER.decode(prompt[len(before) :]) == "assert f(1) == 2\nassert f(2) == 3\n"


def test_a_policys_random_stream_is_the_requests_own_whatever_else_is_requested():
    prompts = {
        "one": PROMPTS.code("Add one.", "f"),
        "two": PROMPTS.code("Add two.", "f"),
        "suite": PROMPTS.test("Add one.", "f", SUITE.program),
        "next": PROMPTS.next_test("Add one.", "f", PROBLEM.solution, KNOWN),
    }
    sample = Scripted({prompt: [f"response to {name}"] * 2 for name, prompt in prompts.items()})
    player = PolicyPlayer(sample, PROMPTS, TOKENIZER.decode)
    written = dict(player.programs(program_requests([PROBLEM, OTHER], 2, (7,))))
    assert [[each.response.text for each in written[i]] for i in (0, 1)] == [
        ["response to one"] * 2,
        ["response to two"] * 2,
    ]
    suites = dict(player.suites([SUITE, ROUND]))
    assert [suites[i][0].response.text for i in (0, 1)] == ["response to suite", "response to next"]
    together = {request.prompt: request.stream for request in sample.asked}
    assert len(set(together.values())) == 4
    assert together[prompts["one"]][0] == together[prompts["two"]][0] == 7
    sample.asked.clear()
    list(player.programs(program_requests([OTHER], 2, (7,))))
    assert sample.asked[0].stream == together[prompts["two"]]


def test_responses_are_read_as_in_the_game():
    def respond(requests):
        yield 0, ("Here:\n```python\nx = 1\n```",) * requests[0].samples
        yield 1, ("assert f(1) == 2\nassert g(1) == 2",) * requests[1].samples

    assert {each.program for each in dict(TextPlayer(respond).programs(PROGRAMS))[0]} == {"x = 1\n"}
    (written,) = dict(TextPlayer(respond).suites([SUITE, ROUND]))[1]
    assert [(test.call, test.stated) for test in written.suite.tests] == [("f(1)", "2")]


def test_conversations_become_tokens_by_the_chat_template():
    prompts = chat_prompts(TOKENIZER, 8)
    assert prompts.code("Add one.", "f") == TOKENIZER.encode_chat(messages(PROGRAMS[0], 8))
    assert prompts.next_test("Add one.", "f", PROBLEM.solution, KNOWN) == TOKENIZER.encode_chat(messages(ROUND, 8))


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
    answers = dict(model.respond([*PROGRAMS, replace(ROUND, samples=5)]))
    assert [len(answers[i]) for i in range(3)] == [5, 5, 5]
    assert len({text for texts in answers.values() for text in texts}) == 15  # other seeds, other texts
    assert {(r["model"], r["temperature"], r["top_p"], r["max_tokens"]) for r in server.requests} == {
        ("served", 0.7, 0.95, 64)
    }
    assert set(server.keys) == {"Bearer secret"}
    assert messages(PROGRAMS[0], 8) in [request["messages"] for request in server.requests]


def test_an_endpoint_that_refuses_says_why_and_one_that_is_away_is_an_outage(server):
    model = find_endpoint(f"{address(server)}/v1/", "mine", SAMPLING, 8)
    server.status = 404
    with pytest.raises(UserError, match="refuses: 404"):
        list(model.respond(program_requests([PROBLEM], 1)))
    server.status, server.given = 200, 0
    with pytest.raises(EndpointError, match="without choices"):
        list(model.respond(program_requests([PROBLEM], 1)))
    server.busy = 100
    with pytest.raises(EndpointError, match="does not answer: 503"):
        list(model.respond(program_requests([PROBLEM], 1)))
