"""TRL: `GRPOTrainer(reward_funcs=passed_tests, ...)`, with a dataset that has the columns `prompt` and `tests`.

TRL calls it with a batch: the completions, texts or conversations, and each column of the dataset by its name. It
returns one reward each (https://huggingface.co/docs/trl/grpo_trainer#using-a-custom-reward-function).
"""

from concurrent.futures import Future
from functools import cache
from typing import Any

from codea1_judge import Judge, Verdicts, program_in

judge = cache(Judge)  # one in each process; `Judge(address="http://HOST:8787")` judges elsewhere


def passed_tests(completions: list[Any], tests: list[Any], **_columns: Any) -> list[float | None]:
    """The share of its tests that each program passes; None, which TRL leaves out, for a row without tests that can be
    read, or without a text. An outage of the judge raises: it must not become a reward."""
    pending = [_submitted(completion, suite) for completion, suite in zip(completions, tests, strict=True)]
    return [future and future.result().share for future in pending]


def _submitted(completion: Any, tests: Any) -> Future[Verdicts] | None:
    text = completion if isinstance(completion, str) or not completion else completion[-1].get("content")
    try:
        return judge().submit(program_in(text), tests) if isinstance(text, str) and tests else None
    except ValueError:  # names the test that is not one
        return None
