"""One server for all tests."""

from collections.abc import Iterator

import grpc
import openai
import pytest
from jetstream.core.proto import jetstream_pb2_grpc
from tiny_policy import tiny_policy
from tiny_server import Running, running


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    with running(*tiny_policy()) as (started, _):
        yield started


@pytest.fixture(scope="session")
def client(server: Running) -> openai.OpenAI:
    return server.client()


@pytest.fixture(scope="session")
def stub(server: Running) -> Iterator[jetstream_pb2_grpc.OrchestratorStub]:
    with grpc.insecure_channel(f"127.0.0.1:{server.address.grpc_port}") as channel:
        yield jetstream_pb2_grpc.OrchestratorStub(channel)
