"""TRL: `GRPOTrainer(reward_funcs=passed_tests, ...)`, with a dataset that has the columns `prompt` and `tests`.

TRL calls it with a batch: the completions, texts or conversations, and each column of the dataset by its name. It
returns one reward each (https://huggingface.co/docs/trl/grpo_trainer#using-a-custom-reward-function).
"""

from functools import cache
from typing import Any

from codea1_judge import Judge, program_in

judge = cache(Judge)  # one in each process; `Judge(address="http://HOST:8787")` judges elsewhere


def passed_tests(completions: list[Any], tests: list[list[str]], **_columns: Any) -> list[float]:
    """The share of its tests that each program passes. An outage of the judge raises: it must not become a reward."""
    responses = [each if isinstance(each, str) else each[-1]["content"] for each in completions]
    pending = [judge().submit(program_in(text), suite) for text, suite in zip(responses, tests, strict=True)]
    return [future.result().share for future in pending]
