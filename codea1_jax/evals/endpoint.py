"""A served model (ours, vLLM, or any other with OpenAI's chat completions) as a model under evaluation."""

import hashlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import httpx2

from codea1_jax.common.errors import UserError
from codea1_jax.config import Templates
from codea1_jax.config.prompts import BUILT_IN_TEMPLATES
from codea1_jax.game.players import AnyRequest, ConversationRequest, ProgramRequest
from codea1_jax.game.tasks import task_of, test_messages
from codea1_jax.models.tokenizer import Message
from codea1_jax.rollout import Sampling

logger = logging.getLogger(__name__)

AT_ONCE = 32  # conversations in flight
MOST_SAMPLES = 128  # of one request; OpenAI's own bound, and ours
ATTEMPTS = 6
PAUSE = 1.0  # seconds before the second attempt; doubled for each further one
LONGEST_PAUSE = 60.0  # that a server can ask for
PATIENCE = httpx2.Timeout(1_800.0, connect=60.0)  # seconds a server may take to answer

_BUSY = {408, 425, 429}
_HARMLESS = "Say yes."


class EndpointError(OSError):
    """A server that does not answer as it should; the message quotes it."""


class Refusal(UserError):
    """A request that a server does not take: asking again would not help."""


@dataclass(frozen=True)
class Endpoint:
    """A served model below `url`, which ends in /v1."""

    url: str
    client: httpx2.Client
    model: str
    sampling: Sampling
    suite_size: int
    templates: Templates = BUILT_IN_TEMPLATES

    def respond(self, requests: Sequence[AnyRequest]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The responses to each request, for `players.TextPlayer`; where there is no text, "", with a warning.

        Raises EndpointError, and UserError where it is not the prompt that the server refuses.
        """
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
        while (missing := request.samples - len(texts)) > 0:
            count, seed = min(missing, MOST_SAMPLES), _seed(*request.stream, len(texts))
            try:
                choices = self._choices(messages(request, self.suite_size, self.templates), count, seed)
            except Refusal as error:
                self._choices([{"role": "user", "content": _HARMLESS}], count, seed)  # unless it refuses any prompt
                logger.warning("%s: %d responses are empty: %s", request.problem.id, missing, error)
                return (*texts, *[""] * missing)
            choices = choices[:missing] or [None]
            if reasons := [_reason(choice) for choice in choices if not _text(choice)]:
                named = ", ".join(sorted(set(reasons)))
                logger.warning(
                    "%s: %d of %d responses are empty: %s", request.problem.id, len(reasons), len(choices), named
                )
            texts += map(_text, choices)
        return tuple(texts)

    def _choices(self, conversation: Sequence[Message], count: int, seed: int) -> list[Any]:
        body = {
            "messages": conversation,
            "model": self.model,
            "n": count,
            "max_tokens": self.sampling.max_new_tokens,
            "temperature": self.sampling.temperature,
            "top_p": self.sampling.top_p,
            "seed": seed,
        }
        return ask(self.client, f"{self.url}/chat/completions", "choices", body)


def messages(request: AnyRequest, suite_size: int, templates: Templates = BUILT_IN_TEMPLATES) -> list[Message]:
    problem, task = request.problem, task_of(request.problem)
    if isinstance(request, ConversationRequest):
        return task.test_function_messages(problem, request.earlier, templates)
    if isinstance(request, ProgramRequest):
        return task.code_messages(problem, templates)
    return test_messages(problem, request.program, suite_size, templates)


def find_endpoint(
    address: str,
    model: str | None,
    sampling: Sampling,
    suite_size: int,
    key: str = "",
    templates: Templates = BUILT_IN_TEMPLATES,
) -> Endpoint:
    """The endpoint at `address`, http://host:port with or without /v1; `model` of None is the first that it serves.

    `key` is sent as a bearer token. Raises UserError if there is no such address, if the key cannot be sent or if
    the server has no model, and EndpointError if it does not answer.
    """
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise UserError("OPENAI_API_KEY must be one line of printable ASCII without spaces around it: set it again")
    url = address.rstrip("/").removesuffix("/v1") + "/v1"
    try:
        host = httpx2.URL(url).host
    except httpx2.InvalidURL as error:
        raise UserError(f"{address}: {error}") from error
    if not host:
        raise UserError(f"{address} names no host: write http://host:port")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    client = httpx2.Client(headers=headers, timeout=PATIENCE, follow_redirects=True)
    if model is None:
        served = [each["id"] for each in ask(client, f"{url}/models", "data") if "id" in (each or ())]
        if not served:
            raise UserError(f"{address} serves no model; name one")
        model = str(served[0])
    return Endpoint(url, client, model, sampling, suite_size, templates)


def ask(client: httpx2.Client, url: str, field_name: str, body: Mapping[str, Any] | None = None) -> list[Any]:
    """The list of that name in the answer; tried again while the server is busy or away.

    Raises Refusal or EndpointError, which quote it without the key.
    """
    key = client.headers.get("Authorization", "").removeprefix("Bearer ")
    reason = ""
    for attempt in range(ATTEMPTS):
        pause = PAUSE * 2**attempt
        try:
            response = client.request("GET" if body is None else "POST", url, json=body)
        except httpx2.RequestError as error:
            reason = str(error) or type(error).__name__
        else:
            quoted = " ".join(response.text[:300].split())
            quoted = quoted.replace(key, "***") if key else quoted
            reason = f"{response.status_code} {quoted}"
            if response.is_success:
                if isinstance(items := _field(_document(response), field_name), list):
                    return items
                reason = f"it gives no {field_name}: {quoted}"
            elif response.status_code < 500 and response.status_code not in _BUSY:
                raise Refusal(f"{url} refuses: {reason}")
            after = response.headers.get("Retry-After", "")
            pause = max(pause, min(float(after), LONGEST_PAUSE) if after.isdecimal() else 0.0)
        if attempt < ATTEMPTS - 1:
            time.sleep(pause)
    raise EndpointError(f"{url} does not answer: {reason}")


def _document(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _seed(*parts: int) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") >> 1


def _text(choice: Any) -> str:
    content = _field(_field(choice, "message"), "content")
    # JSON can write half a surrogate pair, which is not text.
    return content.encode("utf-8", "replace").decode() if isinstance(content, str) else ""


def _reason(choice: Any) -> str:
    message, ended = _field(choice, "message"), _field(choice, "finish_reason")
    if _field(message, "reasoning_content") or _field(message, "reasoning"):
        return "only reasoning: allow longer responses"
    return f"no text ({ended})" if isinstance(ended, str) else "no text"


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None
