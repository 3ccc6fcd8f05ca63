"""`best_of`: a request gets what `codea1 solve` chooses among the same samples."""

import json

import openai
import pytest
from tiny_run import first_run, start_codea1
from workers import free_port

from codea1_jax.cli import main

QUESTION = "Write f(x): return x + 1.\n\ndef f(x):"
WISH = {"model": "run", "prompt": QUESTION, "max_tokens": 32, "temperature": 0.7, "top_p": 0.95}


@pytest.fixture(scope="module")
def client():
    http, rpc = free_port(), free_port()
    words = [f"--port={http}", f"--grpc-port={rpc}", "--prompt-tokens=96", "--response-tokens=32", "--workers=1"]
    server = start_codea1("serve", str(first_run()), "--best-of", "--slots=4", *words)
    try:
        for line in server.stderr:
            if "serving run at" in line:
                break
        else:
            pytest.fail(f"the server ended with {server.wait()}")
        yield openai.OpenAI(base_url=f"http://127.0.0.1:{http}/v1", api_key="none", max_retries=0, timeout=100)
    finally:
        server.terminate()
        server.communicate(timeout=60)
    assert server.returncode == 0


def test_the_programs_are_those_that_solve_chooses_with_the_same_seed(client, tmp_path, capsys):
    (tmp_path / "question.md").write_text(QUESTION)
    words = ["solve", str(tmp_path / "question.md"), "--model", str(first_run()), "--n", "6", "--max-tokens", "32"]
    for seed in (0, 1):
        assert main([*words, "--seed", str(seed), "--workers", "1", "--json"]) == 0
        (survivors,) = json.loads(capsys.readouterr().out).values()
        programs = [each["program"] for each in survivors for _ in range(each["copies"])]
        assert len(set(programs)) > 1
        answer = client.completions.create(**WISH, seed=seed, n=3, extra_body={"best_of": 6})
        assert [choice.text for choice in answer.choices] == programs[:3]
        assert answer.usage.completion_tokens > sum(len(choice.text) for choice in answer.choices) / 4


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"best_of": 2, "n": 3}, "2 is fewer than n=3"),
        ({"best_of": 3, "stream": True}, "no stream"),
        ({"best_of": 3, "stop": "x"}, "no stream, stop"),
        ({"best_of": 3, "logprobs": 0}, "or logprobs"),
        ({"best_of": 3, "prompt": ["a", "b"]}, "one prompt as text"),
        ({"best_of": 129}, "128"),
        ({"prompt": "x" * 100, "best_of": 2}, "its prompt of 101 tokens is longer than the model takes"),
        ({"prompt": " ", "best_of": 2}, "question"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused_with_its_reason(client, wish, says):
    with pytest.raises(openai.BadRequestError, match=says) as refused:
        client.completions.create(**WISH | wish)
    assert refused.value.param == next(iter(wish))


@pytest.mark.parametrize(
    ("words", "says"),
    [(["--role", "test"], "leave --role out"), ([], "not a run")],
)
def test_a_server_that_cannot_choose_does_not_start(words, says, tmp_path, capsys):
    place = str(first_run()) if words else str(tmp_path)
    ports = [f"--port={free_port()}", f"--grpc-port={free_port()}"]
    assert main(["serve", place, "--best-of", "--workers", "1", *ports, *words]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("codea1: ") and says in said[-1]
