"""prime-rl and verifiers: a taskset whose reward is the share of a question's tests that the program passes.

Rows of `path` are JSON: {question, tests}. verifiers finds the taskset by its package; prime-rl trains on it
(https://docs.primeintellect.ai/verifiers).
"""

import asyncio
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

from codea1_judge import Judge, program_in

judge = cache(Judge)  # one in each process; `Judge(address="http://HOST:8787")` judges elsewhere


class CodeData(vf.TaskData):
    tests: list[Any]  # as a `Judge` takes them


class CodeTask(vf.Task[CodeData]):
    @vf.reward
    async def passed_tests(self, trace: vf.Trace) -> float:
        verdicts = judge().submit(program_in(trace.last_reply), self.data.tests)
        return (await asyncio.wrap_future(verdicts)).share


class CodeConfig(vf.TasksetConfig):
    path: Path


class CodeTaskset(vf.Taskset[CodeTask, CodeConfig]):
    def load(self) -> Iterator[CodeTask]:
        for row in map(json.loads, self.config.path.read_text().splitlines()):
            yield CodeTask(CodeData(prompt=row["question"], tests=row["tests"]), self.config.task)


__all__ = ["CodeTaskset"]
