"""What benches share: a model, contenders that take turns, how they compare, and the line of JSON that ends each bench.

A bench says what is measured and against whom. NAME_ours.py and NAME_PEER.py next to it are the contenders.
"""

import json
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
from contenders import Contender, environment

from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Transformer, init_params
from codea1_jax.models.weights import save_params

SHAPE = Architecture(32_000, 768, 2048, 12, 12, 2, 64)
"""98 million parameters."""
PACKAGES = {
    "transformers": ("torch==2.13.0", "transformers>=5,<6"),
    "trl": ("torch==2.13.0", "transformers>=5,<6", "trl==1.16.0"),
    "tunix": ("google-tunix==0.1.7", "jax==0.10.2"),
}
"""What the environment of each peer holds."""

Turns = Mapping[str, Sequence[Mapping[str, Any]]]
"""What each contender reported, turn by turn."""


def save_model(directory: Path) -> None:
    save_params(directory, init_params(Transformer(SHAPE), jax.random.key(0)), SHAPE)


@contextmanager
def contenders(bench: str, peers: Sequence[str], *arguments: object) -> Iterator[dict[str, Contender]]:
    """This project and its peers, each started in its own environment with these arguments, and ended at the end."""
    pythons = {"ours": Path(sys.executable)} | {peer: environment(peer, PACKAGES[peer]) for peer in peers}
    started = {name: Contender(python, f"{bench}_{name}.py", *arguments) for name, python in pythons.items()}
    try:
        yield started
    finally:
        for contender in started.values():
            contender.stop()


def take_turns(
    started: Mapping[str, Contender], count: int, ask: Callable[[Contender], dict[str, Any]] = Contender.ask
) -> Turns:
    """What each reports of its turns. They alternate, so that a busy machine slows all of them."""
    rounds = [{name: ask(contender) for name, contender in started.items()} for _ in range(count)]
    return {name: [reported[name] for reported in rounds] for name in started}


def table(turns: Turns, work: float, unit: str) -> str:
    """A line for each contender: its median seconds, what it did in a second, and its peak of memory so far."""
    medians = {name: statistics.median(turn["seconds"] for turn in reported) for name, reported in turns.items()}
    return "\n".join(
        f"{name:14}{seconds:9.1f} s{work / seconds:9.0f} {unit}/s{turns[name][-1]['peak_gb']:7.1f} GB at most"
        for name, seconds in medians.items()
    )


def speedups(turns: Turns) -> dict[str, float]:
    """How many times as long as ours each peer takes.

    The median over turns, each by itself, since the machine may be busier in one than in another.
    """
    ours = [turn["seconds"] for turn in turns["ours"]]
    return {
        name: round(statistics.median(turn["seconds"] / own for turn, own in zip(reported, ours, strict=True)), 3)
        for name, reported in turns.items()
        if name != "ours"
    }


def finish(bench: str, ratios: Mapping[str, Any], **figures: Any) -> None:
    print(json.dumps({"bench": bench, "ratios": ratios, **figures}))
