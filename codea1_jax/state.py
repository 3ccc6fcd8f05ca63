"""All that training changes, and its form in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codea1_jax.game.rollouts import Page
from codea1_jax.learn import PolicyState
from codea1_jax.models.qwen2 import Params
from sandbox import Test


@dataclass(frozen=True)
class State:
    """`step` steps are done; `policies` by name; `data` is the loader's place among the questions.

    `reference` is the policy at step 0, if one is needed. Under LoRA it is the base of all policies; no checkpoint
    holds it, but its fingerprint, `base`.
    """

    step: int
    policies: Mapping[str, PolicyState]
    reference: Params | None
    book: Mapping[str, Page]
    data: Any
    base: str | None = None


def pack_state(state: State) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state as arrays and a JSON document."""
    arrays: dict[str, Any] = dict(state.policies)
    if state.reference is not None and state.base is None:
        arrays["reference"] = state.reference
    book = {
        question: [[test.call, test.expected, test.inputs, count] for test, count in page.items()]
        for question, page in state.book.items()
    }
    return arrays, {"step": state.step, "book": book, "data": state.data, "base": state.base}


def unpack_state(arrays: Mapping[str, Any], document: Mapping[str, Any]) -> State:
    """The inverse of `pack_state`, but for a base."""
    book = {question: {Test(*test): count for *test, count in page} for question, page in document["book"].items()}
    policies = {name: policy for name, policy in arrays.items() if name != "reference"}
    return State(document["step"], policies, arrays.get("reference"), book, document["data"], document["base"])
