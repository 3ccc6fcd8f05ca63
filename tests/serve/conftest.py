"""One server for all tests."""

from collections.abc import Iterator

import grpc
import openai
import pytest
from tiny_policy import tiny_policy
from tiny_server import Running, running

from codea1_jax.rollout.jetstream.shims import jetstream_pb2_grpc


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    with running(*tiny_policy()) as (found, _):
        yield found


@pytest.fixture(scope="session")
def client(server: Running) -> openai.OpenAI:
    return server.client()


@pytest.fixture(scope="session")
def stub(server: Running) -> Iterator[jetstream_pb2_grpc.OrchestratorStub]:
    with grpc.insecure_channel(f"127.0.0.1:{server.ports.grpc}") as channel:
        yield jetstream_pb2_grpc.OrchestratorStub(channel)
