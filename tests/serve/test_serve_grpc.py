import grpc
import pytest
from tiny_server import TOKEN

from codea1_jax.serve.grpc_service import protocol

BEARER = (("authorization", f"Bearer {TOKEN}"),)


def text(content, max_tokens=8, **more):
    wrapped = protocol.DecodeRequest.TextContent(text=content)
    return protocol.DecodeRequest(text_content=wrapped, max_tokens=max_tokens, **more)


def tokens(ids, max_tokens=8):
    return protocol.DecodeRequest(
        token_content=protocol.DecodeRequest.TokenContent(token_ids=ids), max_tokens=max_tokens
    )


def decoded(responses):
    samples = [response.stream_content.samples[0] for response in responses]
    return "".join(sample.text for sample in samples), [token for sample in samples for token in sample.token_ids]


@pytest.mark.parametrize("length", [1, 7, 8, 16, 21])
def test_text_is_answered_as_over_http_with_exactly_as_many_tokens(stub, client, length):
    said, drawn = decoded(stub.Decode(text("def f", length), metadata=BEARER))
    answer = client.completions.create(model="tiny", prompt="def f", max_tokens=length, temperature=0)
    assert said == answer.choices[0].text
    assert len(drawn) == answer.usage.completion_tokens == length


def test_tokens_are_answered_with_tokens(stub, server):
    said, drawn = decoded(stub.Decode(tokens(server.policy.tokenizer.encode("def f")), metadata=BEARER))
    assert said == ""
    assert drawn == decoded(stub.Decode(text("def f"), metadata=BEARER))[1]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (text("x" * 65), "65 tokens; this server takes at most 64"),
        (text(""), "the prompt is empty"),
        (text("a", 0), "max_tokens=0"),
        (text("a", 65), "max_tokens=65 is more than the 64"),
        (tokens([-1]), "token -1 is not in the vocabulary"),
        (text("a", session_cache="mine"), "keeps no sessions"),
        (protocol.DecodeRequest(max_tokens=1), "neither text_content nor token_content"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong_with_it(stub, request_, says):
    with pytest.raises(grpc.RpcError, match=says) as error:
        list(stub.Decode(request_, metadata=BEARER))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_decoding_needs_the_token_and_health_does_not(stub):
    with pytest.raises(grpc.RpcError) as error:
        list(stub.Decode(text("a")))
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert stub.HealthCheck(protocol.HealthCheckRequest()).is_live
