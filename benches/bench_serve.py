"""Servers under load: `make bench-serve`, about half an hour on 2 quiet cores.

`codea1 serve` against `transformers serve`, with its continuous batching and without, on the same weights (98M
parameters, float32): 256 clients at once, each with a prompt of 32 to 128 tokens and a response of 12 to 120, streamed.
Tokens per second are those of the responses, until the last has ended; the first token's time is what a client waits
for it. One server at a time, each asked before for what it compiles or loads. A server that fails is reported with its
words. Ends with one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import ascii_letters
from typing import Any

import aiohttp
from contenders import environment
from harness import PACKAGES, SHAPE, finish, save_model
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

CLIENTS = 256
STARTED_WITHIN = 300.0  # seconds
ANSWERED_WITHIN = 3600.0
SLOTS = 64  # rows of ours, as the batches of the others in bench_rollout
END = "<|endoftext|>"
SERVING = (*PACKAGES["transformers"], "transformers[serving]>=5,<6")


class ServerError(Exception):
    """A server answered that it cannot, or not in full."""


@dataclass(frozen=True)
class Order:
    """What a client asks for."""

    prompt: str
    tokens: int


@dataclass(frozen=True)
class Answer:
    """What a client got: seconds until the first piece, and tokens as the server counts them."""

    first: float
    tokens: int


def make_orders() -> list[Order]:
    """The clients of a round."""
    chance = random.Random(0)

    def order() -> Order:
        prompt = "".join(chance.choices(ascii_letters, k=chance.randint(32, 128)))
        return Order(prompt, chance.randint(12, 120))

    return [order() for _ in range(CLIENTS)]


def save_tokenizer(directory: Path) -> None:
    """A tokenizer of as many words as the model has, to which every letter is a token."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [END, *letters, *(f"w{number}" for number in range(SHAPE.vocab_size - 1 - len(letters)))]
    bytes_ = Tokenizer(BPE({word: number for number, word in enumerate(words)}, []))
    bytes_.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    bytes_.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    PreTrainedTokenizerFast(tokenizer_object=bytes_, eos_token=END, pad_token=END).save_pretrained(directory)


@contextmanager
def serving(command: Sequence[object], port: int) -> Iterator[str]:
    """The address of a server that has been started, and is stopped at the end."""
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "JAX_PLATFORMS": "cpu"}
    address, until = f"http://127.0.0.1:{port}", time.monotonic() + STARTED_WITHIN
    process = subprocess.Popen(list(map(str, command)), env=variables, stdout=subprocess.DEVNULL)
    try:
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{process.args} does not serve: see above")
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(60)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def load(address: str, model: str, orders: Sequence[Order]) -> tuple[float, list[Answer]]:
    """All clients at once: seconds until the last has ended, and their answers."""
    limits = aiohttp.ClientTimeout(total=ANSWERED_WITHIN)
    async with aiohttp.ClientSession(timeout=limits, connector=aiohttp.TCPConnector(limit=0)) as session:
        started = time.perf_counter()
        answers = await asyncio.gather(*(_ask(session, address, model, order) for order in orders))
        return time.perf_counter() - started, answers


async def _ask(session: aiohttp.ClientSession, address: str, model: str, order: Order) -> Answer:
    asked = {"model": model, "prompt": order.prompt, "max_tokens": order.tokens, "temperature": 1.0, "stream": True}
    asked |= {"stream_options": {"include_usage": True}}
    started, first, tokens = time.perf_counter(), None, None
    async with session.post(f"{address}/v1/completions", json=asked) as got:
        if got.status != 200:
            raise ServerError(f"status {got.status}: {await got.text()}")
        async for line in got.content:
            if not line.startswith(b"data: ") or line.strip() == b"data: [DONE]":
                continue
            piece: dict[str, Any] = json.loads(line[6:])
            if "error" in piece:
                raise ServerError(piece["error"])
            if any(choice.get("text") for choice in piece.get("choices", ())):
                first = first or time.perf_counter() - started
            if piece.get("usage"):
                tokens = piece["usage"]["completion_tokens"]
    if first is None or tokens is None:
        raise ServerError("an answer ended without text or without usage")
    return Answer(first, tokens)


def play(address: str, model: str) -> dict[str, Any]:
    """A short round before the one that counts. Raises ServerError."""
    orders = make_orders()
    asyncio.run(load(address, model, orders[:4]))
    seconds, answers = asyncio.run(load(address, model, orders))
    firsts = sorted(answer.first for answer in answers)
    return {
        "tokens_per_second": sum(answer.tokens for answer in answers) / seconds,
        "first_token_median": statistics.median(firsts),
        "first_token_p95": firsts[int(0.95 * len(firsts))],
    }


def main() -> None:
    figures: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        model = Path(temporary) / "model"
        save_model(model)
        save_tokenizer(model)
        port, program = free_port(), Path(sys.executable).with_name("codea1")
        sizes = ("--slots", SLOTS, "--prompt-tokens", 128, "--response-tokens", 120)
        with serving((program, "serve", model, *sizes, "--port", port, "--grpc-port", free_port()), port) as address:
            play(address, model.name)  # compiles for every number of prompts and rows
            figures["ours"] = play(address, model.name)
        theirs = environment("transformers", SERVING).with_name("transformers")
        for way, option in {"transformers": (), "continuous batching": ("--continuous-batching",)}.items():
            port = free_port()
            asked = ("--host", "127.0.0.1", "--port", port, "--device", "cpu", "--dtype", "float32")
            with serving((theirs, "serve", model, *option, *asked), port) as address:
                try:
                    figures[way] = play(address, str(model))
                except ServerError as error:
                    figures[way] = {"failed": str(error)}
    print(f"{'server':24}{'tokens/s':>10}{'first token s, median':>24}{'95%':>8}")
    for way, found in figures.items():
        if "failed" in found:
            print(f"{way:24}fails: {found['failed']}")
            continue
        first = f"{found['first_token_median']:24.1f}{found['first_token_p95']:8.1f}"
        print(f"{way:24}{found['tokens_per_second']:10.0f}{first}")
    ours = figures["ours"]
    speeds = {way: found["tokens_per_second"] for way, found in figures.items() if "failed" not in found}
    ratios = {way: ours["tokens_per_second"] / speed for way, speed in speeds.items() if way != "ours"}
    finish("serve", ratios, **figures)


if __name__ == "__main__":
    main()
