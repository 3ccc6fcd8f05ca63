"""What the host does in a step of the real size while devices and judge take no time: `make bench-host`.

256 questions, 8 programs each, 8 suites for every program; responses of 1,024 tokens on average, in Qwen's vocabulary.
All that is timed is the project's own work in Python: choosing rows, writing prompts, reading responses, asking the
judge, scoring, packing, recording. A part is *hidden* if it runs while the devices decode; the others are added to
every step. Takes a minute or two on one core and ends with one line of JSON.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from qwen_vocabulary import make_tokenizer, read_ranks

from codea1_jax.config import Config, load
from codea1_jax.game.config import RoundConfig
from codea1_jax.game.export import code_groups, question_record, round_metrics, test_groups
from codea1_jax.game.players import PolicyPlayer
from codea1_jax.game.prompts import chat_prompts
from codea1_jax.game.rollouts import StepRollouts
from codea1_jax.game.round import Game, play_round
from codea1_jax.learn.objectives import as_example
from codea1_jax.learn.packing import pack
from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.rollout import Completion, Request
from codea1_jax.rollout.capacity import capacity_of
from codea1_jax.rollout.decode import DecodedBlock
from codea1_jax.rollout.schedule import Schedule
from codea1_jax.run.telemetry import rollout_lines, write_rollouts
from data_pipeline import Problem
from sandbox import Execution, Job, Judge, Limits, Outcome, Status, encode

PRESET, SHARDS = "1.5b/a1_v5e", 16
MEAN_RESPONSE, MEAN_QUESTION = 1024, 400  # tokens
SPREAD = 0.6  # of the logarithms of lengths
HIDDEN = {"programs": "decoding", "suites": "decoding", "records": "learning"}  # by what the devices do then
REMARK = "    # the value is compared with the bound, and the larger of both is kept for the next round of the loop\n"
REMARK_TOKENS = 24

T = TypeVar("T")


@dataclass
class Timer:
    """Seconds by part."""

    seconds: dict[str, float] = field(default_factory=dict)

    def time(self, part: str, function: Callable[[], T]) -> T:
        """What the function returns; its time is added to the part's."""
        began = time.perf_counter()
        value = function()
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began
        return value


class InstantJudge(Judge):
    """Answers at once: every call returns a number, of programs not always the reference's."""

    limits = Limits()

    def submit(self, job: Any) -> Future[Any]:
        """A future that is done. A round asks for no checks."""
        assert isinstance(job, Job)
        bug = not job.is_reference and len(job.program) % 3 == 0
        outcomes = tuple(
            Outcome(Status.RETURNED, encode(hash(call) % 2 + bug), inputs=call if job.is_reference else "")
            for call in job.calls
        )
        future: Future[Any] = Future()
        future.set_result(Execution(Outcome(Status.RETURNED, encode(None)), outcomes, 0.0))
        return future

    def close(self) -> None:
        """Nothing is open."""


def remarks(chance: random.Random, mean: int) -> str:
    """Text of a drawn length, in tokens."""
    tokens = mean * chance.lognormvariate(-(SPREAD**2) / 2, SPREAD)
    return REMARK * max(1, min(4096, round(tokens)) // REMARK_TOKENS)


def make_problem(chance: random.Random, index: int) -> Problem:
    """A question of a drawn length."""
    question = f"Return the largest of {index} and the number.\n{remarks(chance, MEAN_QUESTION)}"
    return Problem(str(index), question, f"def f(x):\n    return max(x, {index})\n", "f", ())


def program_text(chance: random.Random) -> str:
    """A response of the Code LLM."""
    return f"```python\ndef f(x):\n{remarks(chance, MEAN_RESPONSE)}    return max(x, {chance.random()})\n```"


def suite_text(chance: random.Random, tests: int) -> str:
    """A response of the Test LLM: thoughts, then its tests."""
    lines = "\n".join(f"assert f({chance.randrange(10**6)}) == {chance.randrange(2)}" for _ in range(tests))
    return f"{remarks(chance, MEAN_RESPONSE)}\n```python\n{lines}\n```"


def make_player(tokenizer: Tokenizer, suite_size: int, write: Callable[[], str]) -> PolicyPlayer:
    """A policy that draws its responses from 256 that are made beforehand."""
    ready = []
    for _ in range(256):
        tokens = (*tokenizer.encode(write()), tokenizer.eos_ids[0])
        ready.append(Completion(tokens, (-0.5,) * len(tokens), finished=True))
    chance = random.Random(1)

    def sample(requests: Sequence[Request]) -> Iterator[tuple[int, tuple[Completion, ...]]]:
        for index, request in enumerate(requests):
            yield index, tuple(chance.choices(ready, k=request.samples))

    return PolicyPlayer(sample, chat_prompts(tokenizer, suite_size), tokenizer.decode)


def schedule_rows(config: Config, result: StepRollouts) -> tuple[float, int, int]:
    """Seconds of choosing the rows of the suites' decoding, its blocks, and the rows of all blocks."""
    rollout = config.rollout
    responses = [
        (
            p.suites[0].response.prompt,
            tuple(len(s.response.completion.tokens) for s in p.suites if s.response.completion),
        )
        for q in result.questions
        for p in q.programs
    ]
    requests = [Request(prompt, (i,), len(own), own) for i, (prompt, own) in enumerate(responses)]
    capacity = capacity_of(
        rollout, SHARDS, len(requests), rollout.suites, rollout.test_prompt_tokens, rollout.test_tokens
    )
    schedule = Schedule(requests, capacity, longest=rollout.test_tokens, eos_ids=(1,), pad_id=0, seed=0)
    seconds, blocks, decoded = 0.0, 0, 0
    while True:
        began = time.perf_counter()
        schedule.admit()
        if not schedule.busy:
            return seconds, blocks, decoded
        schedule.columns()
        rows, limits = schedule.rows(), schedule.limits()
        schedule.prompts()
        seconds += time.perf_counter() - began
        left = np.where(rows.active, limits - rows.num_generated, 0)
        tokens = np.zeros((capacity.block, len(left)), np.int32)
        drawn: Any = (tokens, tokens * 0.0, np.minimum(left, capacity.block), left > capacity.block, capacity.block)
        began = time.perf_counter()
        schedule.record(DecodedBlock(*drawn))
        seconds += time.perf_counter() - began
        blocks, decoded = blocks + 1, decoded + len(left)


def drawn_tokens(result: StepRollouts) -> int:
    """Of all programs and suites."""
    programs = [program for question in result.questions for program in question.programs]
    responses = [*(p.response for p in programs), *(suite.response for p in programs for suite in p.suites)]
    return sum(len(response.completion.tokens) for response in responses if response.completion)


def main() -> None:
    config, chance, timer = load(Config, PRESET), random.Random(0), Timer()
    size = config.rewards.suite_size
    tokenizer = make_tokenizer(read_ranks())
    problems = [make_problem(chance, index) for index in range(config.train.questions)]
    game = Game(
        make_player(tokenizer, size, lambda: program_text(chance)),
        make_player(tokenizer, size, lambda: suite_text(chance, size)),
        InstantJudge(),
        RoundConfig.of(config),
        chat_prompts(tokenizer, size),
    )
    result = play_round(game, problems, {}, (1,))
    timer.seconds |= {"programs": result.seconds["generate_code"], "suites": result.seconds["generate_tests"]}
    timer.seconds["scoring"] = result.seconds["judge_wait"]  # of a judge that answers at once
    timer.seconds["rows"], blocks, rows = schedule_rows(config, result)
    timer.time("metrics", lambda: round_metrics(result.questions, with_tests=True))
    learned = 0
    for groups, section in ((code_groups(result.questions), config.code), (test_groups(result.questions), config.test)):
        examples = [as_example(item) for group in groups for item in group]
        timer.time("packing", lambda examples=examples, section=section: pack(examples, section.packing, SHARDS))
        learned += sum(len(example.learned) for example in examples)
    with tempfile.TemporaryDirectory() as folder:
        records = (question_record(1, question, tokenizer.decode) for question in result.questions)
        lines = timer.time("records", lambda: rollout_lines(records))
        path = timer.time("writing", lambda: write_rollouts(Path(folder), 1, lines))
        megabytes = path.stat().st_size / 1e6
    for part, seconds in timer.seconds.items():
        print(f"{part:12}{seconds:8.2f} s{f'   hidden by {HIDDEN[part]}' if part in HIDDEN else ''}")
    added = sum(seconds for part, seconds in timer.seconds.items() if part not in HIDDEN)
    each = {
        "row": timer.seconds["rows"] / rows,
        "drawn_token": sum(timer.seconds[part] for part in ("scoring", "metrics", "writing")) / drawn_tokens(result),
        "learned_token": timer.seconds["packing"] / learned,
    }
    print(f"{blocks} blocks, {each['row'] * 1e6:.1f} us for each of their rows; a record of {megabytes:.0f} MB")
    print(
        f"{each['drawn_token'] * 1e9:.0f} ns for each token drawn, {each['learned_token'] * 1e9:.0f} for each learned"
    )
    print(f"added to a step: {added:.1f} s")
    document = {"added_seconds": added, "seconds": timer.seconds, "seconds_each": each, "record_mb": megabytes}
    print(json.dumps({"bench": "host", **document}))


if __name__ == "__main__":
    main()
