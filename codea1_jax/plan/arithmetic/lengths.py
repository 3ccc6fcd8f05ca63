"""How long prompts and responses are: drawn from a stated distribution, or taken from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from codea1_jax.common.errors import UserError
from codea1_jax.config import Role
from codea1_jax.plan.arithmetic.workload import Group, Load

# Of log-normal distributions; real responses to KodCode's questions are about as ragged, their prompts less so.
RESPONSE_SPREAD = 0.6
PROMPT_SPREAD = 0.4


Lengths = Mapping[Role, Sequence[Group]]
"""Groups to choose from, by role."""


def draw_groups(load: Load, fill: float, seed: int = 0) -> list[Group]:
    """Log-normal lengths whose mean is `fill` of the longest allowed before they are cut to that."""
    chance = np.random.default_rng((seed, len(load.role)))
    prompts = _log_normal(chance, fill * load.prompt, PROMPT_SPREAD, (load.prompts,), load.prompt)
    shape = (load.prompts, load.samples)
    responses = _log_normal(chance, fill * load.response, RESPONSE_SPREAD, shape, load.response)
    return [Group(int(prompt), tuple(map(int, row))) for prompt, row in zip(prompts, responses, strict=True)]


def choose_groups(load: Load, lengths: Lengths, seed: int = 0) -> list[Group]:
    """The load's share of the groups with responses, in random order, repeated if there are fewer; so are responses.

    What is longer than allowed is cut. Raises UserError if there are none of the role.
    """
    known = lengths.get(load.role, ())
    sampled = [group for group in known if group.responses]
    if not sampled:
        raise UserError(f"no lengths of role {load.role} are given")
    count = max(1, round(load.prompts * len(sampled) / len(known)))
    chance = np.random.default_rng((seed, len(load.role)))
    rounds = -(-count // len(sampled))
    chosen = [sampled[index] for _ in range(rounds) for index in chance.permutation(len(sampled))][:count]
    return [
        Group(
            min(group.prompt, load.prompt),
            tuple(min(length, load.response) for length in islice(cycle(group.responses), load.samples)),
            group.learned,
        )
        for group in chosen
    ]


def read_lengths(file: Path) -> Lengths:
    """Reads a run's own `rollouts/step_N.jsonl`, or a JSONL file with lengths.

    Such a file has the `role` (code or test), the tokens of a `prompt` and of its `responses` on each line.

    Raises UserError, naming the line, if one is something else.
    """
    by_role: dict[Role, list[Group]] = {}
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error
    for number, line in enumerate(lines, start=1):
        try:
            tree = json.loads(line)
            groups = list(_recorded(tree) if "programs" in tree else [_stated(tree)])
        except (ValueError, KeyError, TypeError) as error:
            example = '{"role": "test", "prompt": 900, "responses": [310, 87]}'
            raise UserError(f"{file}: line {number} is not like {example}") from error
        for role, group in groups:
            by_role.setdefault(role, []).append(group)
    return by_role


def _stated(tree: Mapping[str, Any]) -> tuple[Role, Group]:
    group = Group(int(tree["prompt"]), tuple(map(int, tree["responses"])))
    if tree["role"] not in ("code", "test") or not group.responses or min(group.prompt, *group.responses) < 1:
        raise ValueError
    return tree["role"], group


def _recorded(question: Mapping[str, Any]) -> Iterator[tuple[Role, Group]]:
    """Reads a question's record in a run: its programs, and the suites of each."""
    programs = question["programs"]
    yield "code", _answered(programs, learned=True)
    for index, program in enumerate(programs):
        suites = program["suites"]
        if suites and program["duplicate_of"] == index:
            yield "test", _answered(suites, learned=any(suite["trained"] for suite in suites))
        else:  # its prompt was too long, or it shares the suites of an equal program
            yield "test", Group(1, (), learned=False)


def _answered(responses: Sequence[Mapping[str, Any]], *, learned: bool) -> Group:
    return Group(responses[0]["prompt_tokens"], tuple(each["response_tokens"] for each in responses), learned)


def _log_normal(
    chance: np.random.Generator, mean: float, spread: float, shape: tuple[int, ...], longest: int
) -> np.ndarray:
    drawn = chance.lognormal(np.log(mean) - spread**2 / 2, spread, shape)
    return np.clip(np.ceil(drawn), 1, longest).astype(int)
