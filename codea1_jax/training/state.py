from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from codea1_jax.game.rollouts import Page
from codea1_jax.learn import PolicyState
from codea1_jax.models.decoder import Params
from sandbox import Test, Tolerance


@dataclass(frozen=True)
class State:
    """`step` steps are done; `policies` by name; `data` is the loader's place among the questions.

    reference: the policy at step 0, which the KL term compares with, if there is one.
    bases: under LoRA, what each policy's adapters are added to. Checkpoints hold their digests instead.
    """

    step: int
    policies: Mapping[str, PolicyState]
    reference: Params | None
    book: Mapping[str, Page]
    data: Any
    bases: Mapping[str, Params] = field(default_factory=dict)
    base_digests: Mapping[str, str] = field(default_factory=dict)


def pack_state(state: State) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays: dict[str, Any] = dict(state.policies)
    if state.reference is not None:
        arrays["reference"] = state.reference
    book = {
        question: [
            [test.call, test.expected, test.inputs, test.tolerance.atol, test.tolerance.rtol, count]
            for test, count in page.items()
        ]
        for question, page in state.book.items()
    }
    return arrays, {"step": state.step, "book": book, "data": state.data, "base": dict(state.base_digests)}


def unpack_state(arrays: Mapping[str, Any], document: Mapping[str, Any]) -> State:
    book = {
        question: {Test(call, want, inputs, Tolerance(*rest)): count for call, want, inputs, *rest, count in page}
        for question, page in document["book"].items()
    }
    policies = {name: policy for name, policy in arrays.items() if name != "reference"}
    return State(
        document["step"], policies, arrays.get("reference"), book, document["data"], base_digests=document["base"]
    )
