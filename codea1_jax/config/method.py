"""The methods that the paper's tables compare (arXiv 2603.15611, section 4): who plays what, and who learns from it.

What a method plays in a step is in `codea1_jax.training.step`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from codea1_jax.config.section import Section

Role = Literal["code", "test"]


@dataclass(frozen=True)
class Method:
    """One of the compared methods.

    summary: one line for the configuration reference.
    roles: the policy that plays each trained role, named after the configuration section that it learns by.
    supervised: policies imitate the trajectories they are given, instead of weighing them by advantages.
    needs_golden_tests: a question without golden tests teaches nothing.
    """

    summary: str
    roles: Mapping[Role, str]
    supervised: bool = False
    needs_golden_tests: bool = False

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.roles.values()))


METHODS: Mapping[str, Method] = {
    "a1": Method("two policies against each other", {"code": "code", "test": "test"}),
    "golden": Method(
        "the Code LLM alone, rewarded by its questions' golden tests", {"code": "code"}, needs_golden_tests=True
    ),
    "self_play": Method("one policy in both roles", {"code": "code", "test": "code"}),
    "sft": Method(
        "the Test LLM alone, supervised by golden tests", {"test": "test"}, supervised=True, needs_golden_tests=True
    ),
}


class MethodConfig(Section):
    """Which of the compared methods to run, and with which parts."""

    name: Literal["a1", "golden", "self_play", "sft"] = Field(
        default="a1", description="; ".join(f"{name}: {method.summary}" for name, method in METHODS.items())
    )
    white_box: bool = Field(default=True, description="test prompts show the program under test")
    mistake_book: bool = Field(default=True, description="programs face the tests that earlier ones failed")
    test_prompt: Literal["full", "short"] = Field(
        default="full",
        description="short: the prompt lists no strategies; used by sft, and by presets whose Test LLM starts from sft",
    )
    answer_prediction: bool = Field(
        default=True, description="tests state their answers; else the reference fills them in"
    )

    @property
    def asks_shortly(self) -> bool:
        return self.test_prompt == "short" or self.name == "sft"
