"""Clients that mean the server harm, or know no better: each is refused by itself, and the others are answered."""

import contextlib
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import jax
import openai
import pytest
from capacities import for_slots
from tiny_policy import tiny_policy
from tiny_server import TOKEN, Running, running

from codea1_jax.models.tokenizer import Tokenizer
from sandbox.remote import http_service

SMALL = for_slots(2, 2, (8, 24), (8, 16), block=4, prefill_tokens=24)


@pytest.fixture(scope="module")
def small() -> Iterator[Running]:
    with running(*tiny_policy(), SMALL) as (found, _):
        yield found


def test_no_request_waits_for_a_compilation(small):
    events = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: events.append(event))
    client = small.client()
    for prompt, length in ((1, 16), (8, 1), (9, 7), (24, 16)):
        for wish in ({"temperature": 0}, {"n": 3, "top_p": 0.9, "stop": ["x"]}):
            client.completions.create(model="tiny", prompt="a" * prompt, max_tokens=length, **wish)
    assert "/jax/core/compile/backend_compile_duration" not in events


# --- connections --------------------------------------------------------------------------------------

HALF = {
    "nothing": b"",
    "half a header": b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-",
    "half a body": b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer open sesame\r\n"
    b"Content-Length: 1000\r\n\r\n{",
    "another protocol": bytes.fromhex("16030100c2010000be0303") + bytes(30),
    "what is no HTTP": b"\0\xff: \r\n\r\n",
}


@pytest.mark.parametrize("name", HALF)
def test_half_sent_requests_hold_up_nobody_and_leave_nothing_in_the_log(small, caplog, name):
    with contextlib.ExitStack() as stack:
        for port in [small.address.http_port] * 24 + [small.address.grpc_port] * 12:
            stack.enter_context(connected(port, HALF[name]))
        assert small.client().completions.create(model="tiny", prompt="a", max_tokens=1).choices
    assert small.client().models.list().data
    assert not caplog.records


def test_a_body_that_does_not_come_in_is_answered_408(small, monkeypatch):
    monkeypatch.setattr(http_service, "TRANSFER_SECONDS", 0.2)
    with connected(small.address.http_port, HALF["half a body"]) as connection:
        head, _, body = connection.recv(10_000).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408")
    assert "did not come in" in json.loads(body)["error"]["message"]


def test_a_body_that_is_too_long_is_not_read(small):
    start = HALF["half a body"].split(b"Content-Length")[0]
    with connected(small.address.http_port, start + b"Content-Length: 16777217\r\n\r\n") as connection:
        head, _, body = connection.recv(10_000).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413")
    assert json.loads(body)["error"]["message"]


def connected(port: int, data: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    with contextlib.suppress(ConnectionError):
        connection.sendall(data)
    return connection


@pytest.mark.parametrize(
    "bearer", [b"Bearer \xff", "Bearer schlüssel".encode(), b"Bearer " + b"x" * 5_000, b"\x80", b""]
)
def test_a_token_of_any_bytes_is_refused_with_401(server, caplog, bearer):
    request = b"GET /v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: " + bearer + b"\r\n\r\n"
    with connected(server.address.http_port, request) as connection:
        head, _, body = connection.recv(10_000).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 401")
    assert json.loads(body)["error"]["code"] == "invalid_api_key"
    assert not caplog.records


# --- what a request may say ---------------------------------------------------------------------------


def answer_to(server: Running, body: bytes, path: str = "completions") -> tuple[int, dict]:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.url}/v1/{path}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


ODD = ("NaN", "1e999", "-1", "true", '"x"', "[]", "9" * 5_000)
TINY = ("1e-9", "5e-324", "1e-999", "0.00001001")
VALUES = {
    "temperature": (*ODD, *TINY, "-0.0", "100", "101"),
    "top_p": (*ODD, *TINY, "0", "0.99999999999999999", "1.0000001"),
    "top_k": (*ODD, "2147483647", "2147483648", "0.5"),
    "n": (*ODD, "0", "1.5", "128", "129"),
    "seed": (*ODD, "18446744073709551616", "-9223372036854775809", "1.5"),
    "max_tokens": (*ODD, "0", "16", "17", "2147483648"),
    "logit_bias": (*ODD, '{"1": 1e999}'),
    "stop": (*ODD, '""', '["a", ""]', "[null]", json.dumps(["a"] * 1_000), json.dumps("a" * 100_000), r'"\ud800"'),
    "model": (*ODD, r'"\ud800"', '"\\u0000"'),
    "prompt": (*ODD, '""', "[[1]]", "[0, -1]", "[9999999999999999999999]", '["a", 1]', r'"\ud800"'),
    "stream_options": ("true", '{"include_usage": "?"}'),
    r"\ud800": ("1",),
}


@pytest.mark.parametrize("name", VALUES)
def test_no_value_of_a_request_ends_the_server(small, name):
    for value in VALUES[name]:
        given = {"model": '"tiny"', "prompt": '"a"', "max_tokens": "4", name: value}
        body = "{" + ", ".join(f'"{key}": {text}' for key, text in given.items()) + "}"
        status, answer = answer_to(small, body.encode())
        if status == 200:
            assert answer["choices"], value
        else:
            assert status in (400, 404) and answer["error"]["message"], (value, status)
    assert small.client().completions.create(model="tiny", prompt="a", max_tokens=1, temperature=0).choices


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("completions", {"prompt": [""] * 30_000}),
        ("completions", {"prompt": ["ok", "a" * 30_000]}),
        ("completions", {"prompt": [[1]] * 30_000}),
        ("chat/completions", {"messages": [{"role": "user", "content": ""}] * 30_000}),
        ("chat/completions", {"messages": [{"role": "user", "content": "a" * 30_000}]}),
    ],
)
def test_what_cannot_fit_is_refused_before_it_is_turned_into_tokens(small, monkeypatch, path, asked):
    for name in ("encode", "encode_prompt", "encode_chat"):
        monkeypatch.setattr(Tokenizer, name, lambda *_: pytest.fail("turned into tokens"))
    status, answer = answer_to(small, json.dumps({"model": "tiny", "max_tokens": 1, **asked}).encode(), path)
    assert status == 400 and answer["error"]["param"] == "prompt"


@pytest.mark.parametrize("temperature", [1e-9, 1e-38, 5e-324])
def test_a_temperature_below_what_is_resolved_is_greedy(client, temperature):
    wish = {"model": "tiny", "prompt": "def f", "max_tokens": 8}
    greedy, tiny = (client.completions.create(temperature=t, **wish).choices[0] for t in (0, temperature))
    assert tiny.text == greedy.text
    assert client.completions.create(top_p=1e-40, temperature=1, **wish).choices[0].text == greedy.text


TURN = b'{"model": "tiny", "messages": [{"role": "%s", "content": %s}]}'
BODIES = {
    "nothing": b"",
    "no JSON": b"model=tiny",
    "no object": b"[1]",
    "null": b"null",
    "nested lists": b"[" * 100_000,
    "nested objects": b'{"model":' * 100_000 + b"1" + b"}" * 100_000,
    "nested prompts": b'{"model": "tiny", "prompt": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "no text": b"\xff\xfe\x00",
    "another encoding": '{"model": "tiny", "prompt": "a"}'.encode("utf-16"),
    "half a character": b'{"model": "tiny", "prompt": "\xc3"}',
    "a surrogate in a message": TURN % (b"user", rb'"\ud83d"'),
    "a surrogate in a part": TURN % (b"user", rb'[{"type": "text", "text": "\udc00"}]'),
    "no messages": b'{"model": "tiny", "messages": []}',
    "a picture": TURN % (b"user", b'[{"type": "image_url", "image_url": "x"}]'),
    "no content": TURN % (b"user", b"null"),
    "an unknown role": TURN % (b"robot", b'"a"'),
}


@pytest.mark.parametrize("path", ["completions", "chat/completions"])
@pytest.mark.parametrize("name", BODIES)
def test_a_body_of_the_wrong_form_is_refused_as_json(server, path, name):
    status, answer = answer_to(server, BODIES[name], path)
    assert status == 400 and len(answer["error"]["message"]) < 1_000


def test_nulls_are_the_same_as_nothing(server):
    names = ("suffix", "logit_bias", "stop", "seed", "n", "temperature", "top_p", "top_k", "stream", "stream_options")
    absent = dict.fromkeys((*names, "tools", "response_format", "logprobs", "user"))
    bare = {"model": "tiny", "prompt": "def f", "max_tokens": 4, "seed": 1}
    plain = answer_to(server, json.dumps(bare).encode())
    again = answer_to(server, json.dumps(absent | bare).encode())
    assert plain[0] == again[0] == 200
    assert plain[1]["choices"] == again[1]["choices"]
    turns = [{"role": "user", "content": "a", "name": None, "tool_calls": None}]
    chat = {"model": "tiny", "messages": turns, "max_completion_tokens": None, "max_tokens": 2, "tool_choice": None}
    assert answer_to(server, json.dumps(absent | chat).encode(), "chat/completions")[0] == 200


def test_a_message_may_be_a_list_of_texts(client):
    def reply(content):
        turns = [{"role": "user", "content": content}]
        answer = client.chat.completions.create(model="tiny", messages=turns, max_tokens=6, temperature=0)
        return answer.choices[0].message.content, answer.usage.prompt_tokens

    parts = [{"type": "text", "text": "sort "}, {"type": "text", "text": "a list"}]
    assert reply(parts) == reply("sort a list")


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[0].content + 1 }}", "messages"),
        ("{{ messages[0].tools.first }}", "no attribute"),
        ("{% for", "messages"),
    ],
)
def test_a_chat_template_that_refuses_the_turns_is_a_bad_request(server, client, monkeypatch, template, says):
    monkeypatch.setattr(server.policy.tokenizer.hf, "chat_template", template)
    with pytest.raises(openai.BadRequestError, match=says) as refused:
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "a"}])
    assert refused.value.param == "messages"
