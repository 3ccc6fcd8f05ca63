import asyncio
import signal
import threading
import urllib.request

import jax.numpy as jnp
import openai
import pytest
from tiny_policy import tiny_policy
from tiny_run import start_codea1
from tiny_server import CAPACITY, TOKEN, running
from workers import free_port

from codea1_jax.cli import main
from codea1_jax.models.policy import save_policy
from codea1_jax.serve.server import Address, Server


def left_since(before):
    """Threads that were not there before, except for those of a whole process: gRPC's daemon, and what compiles."""
    new = [thread.name for thread in set(threading.enumerate()) - before]
    return [name for name in new if "_poll_wrapper" not in name and not name.startswith("compile_")]


def test_stopping_answers_what_is_in_progress_and_leaves_no_thread():
    before = set(threading.enumerate())
    with running(*tiny_policy(), grace=60.0) as (found, thread):
        stream = found.client().completions.create(model="tiny", prompt="a", max_tokens=64, seed=1, n=4, stream=True)
        next(iter(stream))
    rest = list(stream)
    assert not thread.is_alive()
    assert {choice.finish_reason for chunk in rest for choice in chunk.choices} & {"stop", "length"}
    with pytest.raises(openai.APIConnectionError):
        found.client().models.list()
    assert left_since(before) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_engine_that_fails_says_so_to_its_clients_and_ends_the_server():
    policy, params = tiny_policy()
    broken = {**params, "embed_tokens": params["embed_tokens"] * jnp.nan}
    before = set(threading.enumerate())
    with running(policy, broken) as (found, thread):
        with pytest.raises(openai.InternalServerError, match="logprobs are not finite"):
            found.client().completions.create(model="tiny", prompt="a")
        thread.join(30)
    assert left_since(before) == []


def test_the_command_serves_a_directory_until_terminated(tmp_path):
    policy, params = tiny_policy()
    save_policy(tmp_path / "model", policy, params)
    http, rpc = free_port(), free_port()
    arguments = [f"--port={http}", f"--grpc-port={rpc}", "--prompt-tokens=64", "--response-tokens=32"]
    process = start_codea1("serve", str(tmp_path / "model"), "--slots=2", *arguments)
    try:
        line = process.stderr.readline()
        while f"serving model at http://127.0.0.1:{http}/v1, gRPC at port {rpc}" not in line:
            assert line, process.wait()
            line = process.stderr.readline()
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{http}/v1", api_key="none", max_retries=0)
        assert client.completions.create(model="model", prompt="a", max_tokens=3, temperature=0).choices[0].text
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{http}/healthz", timeout=5)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{}/nothing"], "no such directory"),
        (["{}", "--host", "0.0.0.0"], "needs a token"),
        (["{}", "--prompt-tokens", "40000"], "more than the model's context of 32768"),
        (["{}", "--slots", "0"], "--slots: 0 is not a positive number"),
        (["{}", "--role", "code"], "is not a run"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(tmp_path, capsys, monkeypatch, arguments, says):
    monkeypatch.delenv("CODEA1_SERVE_TOKEN", raising=False)
    policy, params = tiny_policy()
    save_policy(tmp_path, policy, params)
    assert main(["serve", *(argument.format(tmp_path) for argument in arguments)]) in (1, 2)
    printed = capsys.readouterr().err
    assert says in printed and printed.count("\n") == 1


@pytest.mark.parametrize("taken", ["http", "grpc"])
def test_a_port_in_use_is_named_and_not_shared(taken):
    policy, params = tiny_policy()
    with running(policy, params) as (first, _):
        ports = {"http": 0, "grpc": 0, taken: getattr(first.address, f"{taken}_port")}
        second = Server("second", policy, params, CAPACITY, Address("127.0.0.1", ports["http"], ports["grpc"], TOKEN))
        with pytest.raises(
            OSError,
            match=rf"(?i)cannot listen for {taken} at 127.0.0.1 port {ports[taken]}: Address already in use; choose",
        ):
            asyncio.run(asyncio.wait_for(second.run(lambda _: second.stop()), timeout=60))
        assert first.client().models.list().data[0].id == "tiny"
