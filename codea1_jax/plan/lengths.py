"""How long prompts and responses are: drawn from a stated distribution, or taken from a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codea1_jax.config import Role
from codea1_jax.errors import UserError
from codea1_jax.plan.workload import SamplingLoad

# Of log-normal distributions; real responses to KodCode's questions are about as ragged, their prompts less so.
RESPONSE_SPREAD = 0.6
PROMPT_SPREAD = 0.4


@dataclass(frozen=True)
class Group:
    """The tokens of a prompt and of each of its responses."""

    prompt: int
    responses: tuple[int, ...]


Lengths = Mapping[Role, Sequence[Group]]
"""Groups to choose from, by role."""


def draw_groups(load: SamplingLoad, fill: float, seed: int = 0) -> list[Group]:
    """Log-normal lengths whose mean is `fill` of the longest allowed before they are cut to that."""
    chance = np.random.default_rng((seed, len(load.role)))
    prompts = _log_normal(chance, fill * load.prompt, PROMPT_SPREAD, (load.prompts,), load.prompt)
    shape = (load.prompts, load.samples)
    responses = _log_normal(chance, fill * load.response, RESPONSE_SPREAD, shape, load.response)
    return [Group(int(prompt), tuple(map(int, row))) for prompt, row in zip(prompts, responses, strict=True)]


def choose_groups(load: SamplingLoad, lengths: Lengths, seed: int = 0) -> list[Group]:
    """As many groups as the load has, chosen with repetition; lengths over the longest allowed are cut.

    Raises UserError if there are none of the role.
    """
    known = lengths.get(load.role, ())
    if not known:
        raise UserError(f"--lengths has no line with role {load.role}")
    chance = np.random.default_rng((seed, len(load.role)))
    chosen = [known[index] for index in chance.integers(len(known), size=load.prompts)]
    return [
        Group(
            min(group.prompt, load.prompt),
            tuple(min(group.responses[sample % len(group.responses)], load.response) for sample in range(load.samples)),
        )
        for group in chosen
    ]


def read_lengths(file: Path) -> Lengths:
    """A JSONL file: on each line the `role` (code or test), the tokens of its `prompt`, and of its `responses`.

    Raises UserError, naming the line, if one is something else.
    """
    found: dict[Role, list[Group]] = {}
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"--lengths {file}: {error.strerror}") from error
    for number, line in enumerate(lines, start=1):
        try:
            tree = json.loads(line)
            group = Group(int(tree["prompt"]), tuple(map(int, tree["responses"])))
            if tree["role"] not in ("code", "test") or min(group.prompt, *group.responses) < 1 or not group.responses:
                raise ValueError
        except (ValueError, KeyError, TypeError) as error:
            example = '{"role": "test", "prompt": 900, "responses": [310, 87]}'
            raise UserError(f"--lengths {file}: line {number} is not like {example}") from error
        found.setdefault(tree["role"], []).append(group)
    return found


def _log_normal(
    chance: np.random.Generator, mean: float, spread: float, shape: tuple[int, ...], longest: int
) -> np.ndarray:
    drawn = chance.lognormal(np.log(mean) - spread**2 / 2, spread, shape)
    return np.clip(np.ceil(drawn), 1, longest).astype(int)
