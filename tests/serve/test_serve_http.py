import asyncio
import dataclasses
import json
import threading
import time
import urllib.error
import urllib.request

import openai
import pytest
from aiohttp import ClientConnectionResetError, web
from tiny_server import CAPACITY, TOKEN, running

from codea1_jax.rollout import Request, Sampler, Sampling
from codea1_jax.serve.batcher import Channel

GREEDY = {"model": "tiny", "temperature": 0}
SAMPLED = {"model": "tiny", "prompt": "def f", "max_tokens": 24, "temperature": 0.8, "top_p": 0.9, "seed": 7, "n": 3}
NEUTRAL = {"frequency_penalty": 0, "presence_penalty": 0.0, "extra_body": {"min_p": 0, "repetition_penalty": 1.0}}


@pytest.fixture(scope="module")
def sampled(server):
    """What the core's own sampler draws: texts and completions of three samples of a prompt, seed 7."""
    tokenizer = server.policy.tokenizer
    sampler = Sampler(
        server.policy.model, eos_ids=tokenizer.eos_ids, pad_id=tokenizer.pad_id, seed=7, capacity=CAPACITY
    )
    sampling = Sampling(24, temperature=0.8, top_p=0.9)
    ((_, completions),) = sampler.generate(server.params, [Request(tokenizer.encode("def f"), (0,), 3)], sampling)
    return [tokenizer.decode(completion.tokens) for completion in completions], completions


@pytest.mark.parametrize("more", [{}, NEUTRAL], ids=["plain", "neutral"])
def test_completions_are_those_of_the_sampler_with_the_same_seed(client, sampled, more):
    texts, completions = sampled
    answer = client.completions.create(**SAMPLED, **more)
    assert [choice.text for choice in answer.choices] == texts
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    for choice, completion in zip(answer.choices, completions, strict=True):
        assert choice.finish_reason == ("stop" if completion.finished else "length")
    assert answer.usage.prompt_tokens == 5


def test_a_stream_brings_the_same_text_in_pieces(client, sampled):
    stream = client.completions.create(**SAMPLED, stream=True, stream_options={"include_usage": True})
    texts, reasons, usage = ["", "", ""], {}, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            reasons[choice.index] = choice.finish_reason
    assert texts == sampled[0]
    assert set(reasons) == {0, 1, 2} and None not in reasons.values()
    assert usage.completion_tokens == sum(len(c.tokens) - c.finished for c in sampled[1])


def test_chat_goes_through_the_template_and_streams(server, client):
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "sort a list"}]
    tokens = list(server.policy.tokenizer.encode_chat(messages))
    plain = client.completions.create(prompt=tokens, max_tokens=12, **GREEDY).choices[0].text
    answer = client.chat.completions.create(messages=messages, max_tokens=12, **GREEDY)
    assert answer.choices[0].message.content == plain
    chunks = list(client.chat.completions.create(messages=messages, max_tokens=12, stream=True, **GREEDY))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content for chunk in chunks) == plain


def test_a_stop_string_ends_a_sample_before_it(client):
    whole = client.completions.create(prompt="abc", max_tokens=16, **GREEDY).choices[0].text
    stop = whole[5:7]
    wish = {"prompt": "abc", "max_tokens": 16, "stop": [stop], **GREEDY}
    answer = client.completions.create(**wish)
    (cut,) = answer.choices
    assert (cut.text, cut.finish_reason) == (whole[: whole.find(stop)], "stop")
    assert answer.usage.completion_tokens == whole.find(stop) + 2  # the tiny model's tokens are bytes
    streamed = [chunk.choices[0].text for chunk in client.completions.create(stream=True, **wish)]
    assert "".join(streamed) == cut.text


def test_many_prompts_in_one_request(client):
    prompts = ["a", "bc", "def"]
    alone = [client.completions.create(prompt=prompt, max_tokens=6, **GREEDY).choices[0].text for prompt in prompts]
    answer = client.completions.create(prompt=prompts, max_tokens=6, n=2, **GREEDY)
    assert [choice.text for choice in answer.choices] == [text for text in alone for _ in range(2)]


def test_sixty_four_requests_at_once_are_all_answered(server):
    async def ask_all():
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0) as client:
            asks = [
                client.completions.create(model="tiny", prompt=f"question {i}", max_tokens=1 + i % 9, seed=i)
                for i in range(64)
            ]
            return await asyncio.gather(*asks)

    answers = asyncio.run(ask_all())
    assert all(
        choice.finish_reason == "stop" or answer.usage.completion_tokens == 1 + i % 9
        for i, answer in enumerate(answers)
        for choice in answer.choices
    )
    again = server.client().completions.create(model="tiny", prompt="question 40", max_tokens=5, seed=40)
    assert again.choices[0].text == answers[40].choices[0].text  # whatever else was in the batch


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"prompt": "x" * 65}, "65 tokens; this server takes at most 64"),
        ({"prompt": ""}, "prompt is empty"),
        ({"prompt": [1, 258]}, "token 258 is not in the vocabulary"),
        ({"max_tokens": 65}, "max_tokens=65 is more than the 64"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"n": 0}, "n: "),
        ({"logprobs": 0}, "logprobs: logprobs are not supported: leave it out"),
        ({"frequency_penalty": 0.5}, "frequency_penalty: penalties are not supported: leave it at 0"),
        ({"presence_penalty": -1}, "presence_penalty: penalties are not supported: leave it at 0"),
        ({"extra_body": {"repetition_penalty": 1.1}}, "repetition_penalty: penalties are not supported: leave it at 1"),
        ({"extra_body": {"min_p": 0.1}}, "min_p: min_p is not supported: use top_p or top_k"),
        ({"best_of": 3}, "best_of: choosing among samples is not supported"),
        ({"echo": True}, "echo: repeating the prompt is not supported"),
        ({"stop": ""}, "stop: an empty string"),
        ({"extra_body": {"beams": 4}}, "beams: is not a parameter of this server"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong_with_it(client, wish, says):
    with pytest.raises(openai.BadRequestError, match=says) as refused:
        client.completions.create(**{"model": "tiny", "prompt": "a", **wish})
    assert refused.value.param == next(iter(wish.get("extra_body", wish)))


def test_the_models_card_has_its_length_and_is_found_by_name(client):
    (listed,) = client.models.list()
    card = client.models.retrieve("tiny")
    assert card == listed
    assert (card.object, card.owned_by, card.model_extra["max_model_len"]) == ("model", "codea1", 128)
    assert time.time() - 3600 < card.created <= time.time()
    with pytest.raises(openai.NotFoundError, match="no model 'huge' here, only 'tiny'"):
        client.models.retrieve("huge")


def test_unknown_models_paths_tokens_and_bodies_have_their_statuses(server, client):
    with pytest.raises(openai.NotFoundError, match="no model 'huge'"):
        client.completions.create(model="huge", prompt="a")
    with pytest.raises(openai.AuthenticationError, match="bearer token"):
        server.client(api_key="wrong").models.list()
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert status(server, "/v1/nothing", b"{}") == 404
    assert status(server, "/v1/completions", b"{") == 400


def status(server, path, body=None):
    request = urllib.request.Request(server.url + path, body, {"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=100) as response:
            return response.status
    except urllib.error.HTTPError as error:
        assert "error" in json.load(error)
        return error.code


def health(server, path="/health"):
    with urllib.request.urlopen(server.url + path, timeout=100) as response:
        return json.load(response)


def test_health_needs_no_token(server):
    wait_until_idle(server)
    assert health(server) == health(server, "/healthz") == {"status": "ok", "open_requests": 0}


def wait_until_idle(server):
    while health(server)["open_requests"]:
        time.sleep(0.02)


def test_a_client_that_goes_away_frees_its_row(server, client, monkeypatch):
    """Of its eight blocks one is decoded before it closes the stream, and one after the server has noticed."""
    gone, allowed = threading.Event(), threading.Semaphore(1)
    start_block, cancel = Sampler.start_block, Channel.cancel
    blocks = []

    def start_if_allowed(self, *arguments):
        assert allowed.acquire(timeout=60)
        blocks.append(arguments)
        return start_block(self, *arguments)

    def cancel_and_note(self):
        cancel(self)
        gone.set()

    monkeypatch.setattr(Sampler, "start_block", start_if_allowed)
    monkeypatch.setattr(Channel, "cancel", cancel_and_note)
    stream = client.completions.create(model="tiny", prompt="a", max_tokens=64, seed=3, stream=True)
    next(iter(stream))
    stream.close()
    assert gone.wait(60)
    allowed.release(8)
    wait_until_idle(server)
    assert len(blocks) <= 2


def test_a_connection_lost_while_an_answer_is_written_is_not_an_error(server, client, monkeypatch, caplog):
    async def write(_response, _data):
        raise ClientConnectionResetError("Cannot write to closing transport")

    with monkeypatch.context() as patched:
        patched.setattr(web.StreamResponse, "write", write)
        stream = client.completions.create(model="tiny", prompt="a", max_tokens=64, seed=3, stream=True)
        assert list(stream) == []
    wait_until_idle(server)
    assert [record for record in caplog.records if record.name == "aiohttp.server"] == []


def test_samples_share_a_cache_that_could_not_hold_them_all_at_their_longest(server):
    """Those that lose their pages are drawn again, and nothing of it is seen."""
    small = dataclasses.replace(CAPACITY, pages=20, prefill_buckets=(64,))  # 4 rows at their longest take 60
    wish = {"model": "tiny", "prompt": ["def f" * 9, "sort a list"], "max_tokens": 60, "n": 4, "seed": 1}
    expected = server.client().completions.create(**wish).choices
    with running(server.policy, server.params, small) as (pressed, _):
        whole = pressed.client().completions.create(**wish)
        streamed = [""] * 8
        for chunk in pressed.client().completions.create(stream=True, **wish):
            for choice in chunk.choices:
                streamed[choice.index] += choice.text
    assert [choice.text for choice in whole.choices] == streamed == [choice.text for choice in expected]
