"""The reward functions of examples/, called as their frameworks call them; released/ has the frameworks themselves."""

import json
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTS = ["assert double(2) == 4", "assert double('a') == 'aa'"]
RIGHT = "Here it is:\n```python\ndef double(x):\n    return x + x\n```"
HALF = "```python\ndef double(x):\n    return 4\n```"
LIES = "```python\nprint('passed')\nimport os\nos._exit(0)\n```"


@pytest.fixture
def example() -> Iterator[Callable[[str], Any]]:
    """Loads an example, as a module of its own."""
    loaded = []

    def load(name: str) -> Any:
        spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec and spec.loader
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        loaded.append(module)
        return module

    yield load
    for module in loaded:
        if module.judge.cache_info().currsize:
            module.judge().close()


def test_trl_gets_a_reward_for_each_completion_text_or_conversation(example):
    passed_tests = example("trl_reward").passed_tests
    # trl 1.16.0, trl/trainer/grpo_trainer.py: reward_func(prompts=, completions=, completion_ids=, **reward_kwargs)
    batch = {"completion_ids": [[1]] * 3, "tests": [TESTS] * 3, "trainer_state": None, "log_metric": print}
    texts = [RIGHT, HALF, LIES]
    assert passed_tests(prompts=["q"] * 3, completions=texts, **batch) == [1.0, 0.5, 0.0]
    talks = [[{"role": "assistant", "content": text}] for text in texts]
    assert passed_tests(prompts=[[{"role": "user", "content": "q"}]] * 3, completions=talks, **batch) == [1.0, 0.5, 0.0]


def test_an_odd_row_gets_no_reward_from_trl_and_the_others_theirs(example):
    passed_tests = example("trl_reward").passed_tests
    rows = [
        (RIGHT, TESTS, 1.0),
        (RIGHT, None, None),
        (RIGHT, [], None),
        (RIGHT, ["assert double(2) in range(9)", "assert double(2"], None),
        ([{"role": "assistant", "content": None, "tool_calls": []}], TESTS, None),
        ([], TESTS, None),
        ("```python\nprint(input())\n```", [["1", "1"], ["2", "3"]], 0.5),
        ("", TESTS, 0.0),
    ]
    completions, tests, rewards = map(list, zip(*rows, strict=True))
    assert passed_tests(completions=completions, tests=tests) == rewards


def test_verl_gets_a_score_for_a_response(example):
    compute_score = example("verl_reward").compute_score
    # verl 0.9.1, verl/experimental/reward_loop/reward_manager/naive.py: by these names, with a router's in addition
    row = {"data_source": "mine", "ground_truth": json.dumps(TESTS), "extra_info": {"index": 0}}
    assert [compute_score(solution_str=text, **row) for text in (RIGHT, HALF, LIES)] == [1.0, 0.5, 0.0]
    streams = json.dumps([["1\n", "2\n"], ["2\n", "4\n"]])
    script = "```python\nprint(int(input()) * 2)\n```"
    assert (
        compute_score(data_source="mine", solution_str=script, ground_truth=streams, reward_router_address=None) == 1.0
    )


def test_an_outage_is_no_reward(example, monkeypatch):
    from sandbox import SandboxError

    module = example("verl_reward")
    judge = module.judge()

    def broken(*_: object) -> None:
        raise SandboxError("no worker of the judge can be started")

    monkeypatch.setattr(judge, "submit", broken)
    with pytest.raises(SandboxError):
        module.compute_score("mine", RIGHT, json.dumps(TESTS))
