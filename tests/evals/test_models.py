"""Models under evaluation: policies and endpoints answer the same requests."""

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from scripted import PROMPTS, TOKENIZER, Scripted

from codea1_jax.common.errors import UserError
from codea1_jax.config import Template, Templates
from codea1_jax.evals import endpoint
from codea1_jax.evals.endpoint import EndpointError, find_endpoint, messages
from codea1_jax.evals.requests import conversation_request, program_requests, suite_request
from codea1_jax.game.players import PolicyPlayer, TextPlayer
from codea1_jax.game.prompts import chat_prompts
from codea1_jax.game.tasks.function import SCRIPT_BEGUN
from codea1_jax.rollout import Sampling
from data_pipeline import Problem

PROBLEM = Problem("p", "Add one.", "def f(x):\n    return x + 1", "f", ())
OTHER = Problem("q", "Add two.", "def f(x):\n    return x + 2", "f", ())
PROGRAMS = program_requests([PROBLEM, OTHER], 5)
SUITE = suite_request(PROBLEM, "def f(x): return x")
ANOTHER = conversation_request(PROBLEM, ("def test_f(): ...",))
SAMPLING = Sampling(64, 0.7, 0.95)


def test_bigcodebenchs_problems_are_asked_for_as_their_benchmark_does_and_read_to_its_ends():
    problem = replace(PROBLEM, source="bigcodebench", question='def task_func(x):\n    """Add one."""\n')
    (request,) = program_requests([problem], 3)
    (user,) = messages(request, 8)
    assert f"```\n{problem.question.strip()}\n```" in user["content"]
    prompts = chat_prompts(TOKENIZER, 8)
    prompt = prompts.code(problem)
    assert prompt == TOKENIZER.encode_chat([user]) + TOKENIZER.encode(SCRIPT_BEGUN)
    code = "import math\ndef task_func(x):\n    return x + 1"
    texts = [f"{code}\n```\nIt adds one.", f"{code}\nprint(task_func(1))", code]
    player = PolicyPlayer(Scripted({prompt: texts}), prompts, TOKENIZER.decode)
    ((_, written),) = player.programs([request])
    assert [each.program for each in written] == [code] * 3


def test_a_problem_is_asked_by_its_own_conversation_and_an_endpoint_by_a_users_templates():
    own = [{"role": "user", "content": "Add 1, please."}]
    problem = replace(PROBLEM, prompt=json.dumps(own))
    prompts = chat_prompts(TOKENIZER, 8, own=True)
    player = PolicyPlayer(Scripted({TOKENIZER.encode_chat(own): ["a", "b"]}), prompts, TOKENIZER.decode)
    ((_, written),) = player.programs(program_requests([problem], 2))
    assert [each.response.text for each in written] == ["a", "b"]
    assert prompts.code(PROBLEM) == chat_prompts(TOKENIZER, 8).code(problem)  # ours
    mine = Templates(code=Template(user="Now {question}"))
    (request,) = program_requests([problem], 1)
    assert messages(request, 8, mine) == [{"role": "user", "content": f"Now {PROBLEM.question}"}]
    assert chat_prompts(TOKENIZER, 8, templates=mine).code(problem) == TOKENIZER.encode_chat(messages(request, 8, mine))


def test_a_policys_random_stream_is_the_requests_own_whatever_else_is_requested():
    prompts = {"one": PROMPTS.code(PROBLEM), "two": PROMPTS.code(OTHER), "suite": PROMPTS.test(PROBLEM, SUITE.program)}
    sample = Scripted({prompt: [f"response to {name}"] * 2 for name, prompt in prompts.items()})
    player = PolicyPlayer(sample, PROMPTS, TOKENIZER.decode)
    written = dict(player.programs(program_requests([PROBLEM, OTHER], 2, (7,))))
    assert [[each.response.text for each in written[i]] for i in (0, 1)] == [
        ["response to one"] * 2,
        ["response to two"] * 2,
    ]
    ((_, (suite,)),) = player.suites([SUITE])
    assert suite.response.text == "response to suite"
    together = {request.prompt: request.stream for request in sample.asked}
    assert len(set(together.values())) == 3
    assert together[prompts["one"]][0] == together[prompts["two"]][0] == 7
    sample.asked.clear()
    list(player.programs(program_requests([OTHER], 2, (7,))))
    assert sample.asked[0].stream == together[prompts["two"]]


def test_responses_are_read_as_in_the_game():
    def respond(requests):
        yield 0, ("Here:\n```python\nx = 1\n```",) * requests[0].samples
        yield 1, ("assert f(1) == 2\nassert g(1) == 2",) * requests[1].samples

    assert {each.program for each in dict(TextPlayer(respond).programs(PROGRAMS))[0]} == {"x = 1\n"}
    (written,) = dict(TextPlayer(respond).suites([SUITE, SUITE]))[1]
    assert [(test.call, test.stated) for test in written.suite.tests] == [("f(1)", "2")]


def test_conversations_become_tokens_by_the_chat_template():
    prompts = chat_prompts(TOKENIZER, 8)
    assert prompts.code(PROBLEM) == TOKENIZER.encode_chat(messages(PROGRAMS[0], 8))
    assert prompts.test_function(PROBLEM, ANOTHER.earlier) == TOKENIZER.encode_chat(messages(ANOTHER, 8))


class Server(ThreadingHTTPServer):
    """Chat completions of `given` texts at a time; the first `busy` requests meet a full house.

    Before that, each of `breaks` is sent in place of an answer. `odd` are choices to give, and `refused` is a text that
    no prompt may hold.
    """

    def __init__(self) -> None:
        self.requests: list[dict] = []
        self.keys: list[str | None] = []
        self.given, self.busy, self.status = 8, 0, 200
        self.breaks: list[bytes] = []
        self.odd: list[object] = []
        self.refused = "never"
        super().__init__(("127.0.0.1", 0), Answer)


class Answer(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self._send(200, {"data": [{"id": "served"}]})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.append(self.headers["Authorization"])
        if self.server.breaks:
            self.wfile.write(self.server.breaks.pop())
            self.close_connection = True
            return
        if self.server.busy:
            self.server.busy -= 1
            self._send(503, {"error": "busy"})
            return
        self.server.requests.append(request)
        if self.server.refused in json.dumps(request):
            self._send(400, {"error": f"not for {self.headers['Authorization']}"})
            return
        texts = [f"{request['seed']} {i}" for i in range(min(self.server.given, request["n"]))]
        choices = [{"message": {"content": text}} for text in texts]
        for place in range(min(len(choices), len(self.server.odd))):
            choices[place] = self.server.odd.pop()
        self._send(self.server.status, {"choices": choices})

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
    answers = dict(model.respond([*PROGRAMS, replace(SUITE, samples=5)]))
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
    server.status, server.busy = 200, 100
    with pytest.raises(EndpointError, match="does not answer: 503"):
        list(model.respond(program_requests([PROBLEM], 1)))


BREAKS = {
    "nothing": b"",
    "half a body": b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"choices": [',
    "no JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
    "an error of a gateway's": b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"error": 52}',
    "an unknown failure": b"HTTP/1.1 599 What\r\nContent-Length: 0\r\n\r\n",
}


def test_every_break_of_a_connection_is_retried(server):
    server.breaks = [*BREAKS.values()]
    model = find_endpoint(address(server), "mine", SAMPLING, 8)
    ((_, texts),) = model.respond(PROGRAMS[:1])
    assert len(texts) == 5 and all(texts) and not server.breaks


ODD = (
    ({"message": {"content": "a\ud800b"}}, "a?b", ""),
    ({"message": {"content": None, "reasoning_content": "hm"}}, "", "only reasoning: allow longer responses"),
    ({"message": {"reasoning": "hm"}, "finish_reason": "length"}, "", "only reasoning: allow longer responses"),
    ({"message": {"content": ""}, "finish_reason": "content_filter"}, "", "no text (content_filter)"),
    ({"message": {"content": {"text": 1}}}, "", "no text"),
    ({"message": None}, "", "no text"),
    ("text", "", "no text"),
)


def test_an_odd_choice_costs_one_sample_at_most_which_is_named(server, caplog):
    model = find_endpoint(address(server), "mine", SAMPLING, 8)
    for choice, text, named in ODD:
        caplog.clear()
        server.odd = [choice]
        ((_, texts),) = model.respond(PROGRAMS[:1])
        assert texts[0] == text and all(texts[1:]) and len(texts) == 5
        assert [record.getMessage() for record in caplog.records] == (
            [f"p: 1 of 5 responses are empty: {named}"] if named else []
        )
    server.given = 0  # an answer without choices
    ((_, texts),) = model.respond(program_requests([PROBLEM], 3))
    assert texts == ("", "", "")
    assert "p: 1 of 1 responses are empty: no text" in caplog.text


def test_a_prompt_that_is_refused_costs_its_own_samples_and_the_key_is_not_shown(server, caplog):
    server.refused = "Add two"
    model = find_endpoint(address(server), "mine", SAMPLING, 8, "secret")
    answers = dict(model.respond(PROGRAMS))
    assert all(answers[0]) and answers[1] == ("",) * 5
    assert "q: 5 responses are empty: " in caplog.text and "400" in caplog.text and "secret" not in caplog.text
    server.refused = '"max_tokens": 64'
    with pytest.raises(UserError, match=r"chat/completions refuses: 400 .*not for Bearer \*\*\*"):
        list(model.respond(PROGRAMS))


def test_more_samples_than_a_server_gives_at_once_are_asked_for_in_parts(server):
    server.given = 1_000
    ((_, texts),) = find_endpoint(address(server), "mine", SAMPLING, 8).respond(program_requests([PROBLEM], 200))
    assert len(set(texts)) == 200
    assert [request["n"] for request in server.requests] == [128, 72]


def test_an_address_or_a_key_that_cannot_be_sent_is_refused_at_once_and_the_key_is_not_shown():
    for wrong in ("http://", "http://[::1", "http://a:b:c"):
        with pytest.raises(UserError, match="http"):
            find_endpoint(wrong, "mine", SAMPLING, 8)
    for key in ("se\ncret", "sécret", " secret"):
        with pytest.raises(UserError, match="OPENAI_API_KEY must be one line") as refused:
            find_endpoint("http://127.0.0.1:9", None, SAMPLING, 8, key)
        assert "cret" not in str(refused.value)
