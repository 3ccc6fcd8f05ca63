"""A served model (ours, vLLM, or any other with OpenAI's chat completions) as a model under evaluation."""

from __future__ import annotations

import hashlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from codea1_jax.errors import UserError
from codea1_jax.game.players import SCRIPTED, AnyRequest, ConversationRequest, ProgramRequest
from codea1_jax.game.prompts import (
    code_messages,
    next_test_messages,
    script_messages,
    test_function_messages,
    test_messages,
)
from codea1_jax.models.tokenizer import Message
from codea1_jax.rollout import Sampling

AT_ONCE = 32  # conversations in flight
ATTEMPTS = 6
PAUSE = 1.0  # seconds before the second attempt; doubled for each further one
PATIENCE = 1_800.0  # seconds a server may take to answer

_BUSY = {408, 425, 429, 500, 502, 503, 504}


class EndpointError(OSError):
    """A server that does not answer as it should; the message quotes it."""


@dataclass(frozen=True)
class Endpoint:
    """A model at `url`, which ends in /v1. `key` is sent as a bearer token."""

    url: str
    model: str
    sampling: Sampling
    suite_size: int
    key: str = ""

    def respond(self, requests: Sequence[AnyRequest]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The responses to each request, for `players.TextPlayer`. Raises EndpointError."""
        with ThreadPoolExecutor(AT_ONCE) as threads:
            futures = {threads.submit(self._respond, request): i for i, request in enumerate(requests)}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
            finally:
                threads.shutdown(cancel_futures=True)

    def _respond(self, request: AnyRequest) -> tuple[str, ...]:
        """Asks again for what is missing: not every server gives all `n` at once."""
        texts: list[str] = []
        while len(texts) < request.samples:
            body = {
                "model": self.model,
                "messages": messages(request, self.suite_size),
                "n": request.samples - len(texts),
                "max_tokens": self.sampling.max_new_tokens,
                "temperature": self.sampling.temperature,
                "top_p": self.sampling.top_p,
                "seed": _seed(*request.stream, len(texts)),
            }
            texts += _texts(_exchange(f"{self.url}/chat/completions", self.key, body))
        return tuple(texts[: request.samples])


def messages(request: AnyRequest, suite_size: int) -> list[Message]:
    """The conversation that asks for a program, a suite, one more test, or one more test function."""
    problem = request.problem
    if isinstance(request, ConversationRequest):
        return test_function_messages(problem.described, problem.entry_point, problem.solution, request.earlier)
    if isinstance(request, ProgramRequest):
        if problem.source == SCRIPTED:
            return script_messages(problem.question)
        return code_messages(problem.question, problem.entry_point)
    if request.known is None:
        return test_messages(problem.described, problem.entry_point, request.program, suite_size)
    assert request.program is not None  # one more test is always for a program that is shown
    return next_test_messages(problem.described, problem.entry_point, request.program, request.known)


def find_endpoint(address: str, model: str | None, sampling: Sampling, suite_size: int, key: str = "") -> Endpoint:
    """The endpoint at `address`, http://host:port with or without /v1; `model` of None is the first that it serves.

    Raises UserError if it serves none, EndpointError if it does not answer.
    """
    url = address.rstrip("/")
    url = url if url.endswith("/v1") else f"{url}/v1"
    if model is None:
        served = _exchange(f"{url}/models", key).get("data") or []
        if not served:
            raise UserError(f"--model: {address} serves no model; name one with --served-model")
        model = str(served[0]["id"])
    return Endpoint(url, model, sampling, suite_size, key)


def _seed(*parts: int) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") >> 1


def _texts(answer: Mapping[str, Any]) -> list[str]:
    try:
        texts = [choice["message"]["content"] or "" for choice in answer["choices"]]
    except (KeyError, TypeError) as error:
        raise EndpointError(f"the server gave no chat completion: {json.dumps(answer)[:200]}") from error
    if not texts:
        raise EndpointError("the server gave a chat completion without choices")
    return texts


def _exchange(url: str, key: str, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One request, tried again while the server is busy or away. Raises UserError if it is refused."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    body = None if request is None else json.dumps(request).encode()
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=PATIENCE) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            reason = f"{error.code} {' '.join(error.read(300).decode('utf-8', 'replace').split())}"
            if error.code not in _BUSY:
                raise UserError(f"--model: {url} refuses: {reason}") from error
        except (OSError, ValueError) as error:
            reason = str(error)
    raise EndpointError(f"{url} does not answer: {reason}")
