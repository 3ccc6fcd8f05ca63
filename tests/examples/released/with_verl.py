"""Loads the reward of examples/ as verl does, and verl's own client of SandboxFusion against our service."""

import asyncio
import json
import os

from omegaconf import OmegaConf
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.utils.reward_score import default_compute_score

TESTS = json.dumps(["assert double(2) == 4", "assert double('a') == 'aa'"])
RIGHT = "```python\ndef double(x):\n    return x + x\n```"
HALF = "```python\ndef double(x):\n    return 4\n```"

chosen = {"path": os.environ["EXAMPLES"] + "/verl_reward.py", "name": "compute_score"}
score = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": chosen}}))
row = {"data_source": "mine", "ground_truth": TESTS, "extra_info": {}}
results = [score(solution_str=text, **row) for text in (RIGHT, HALF)]
assert [asyncio.run(each) if asyncio.iscoroutine(each) else each for each in results] == [1.0, 0.5], results

url = os.environ["SERVICE"] + "/run_code"
streams = json.dumps({"inputs": ["1\n", "2\n"], "outputs": ["2\n", "4\n"]})
calls = json.dumps({"fn_name": "double", "inputs": ["2", '"a"'], "outputs": ["4", "aa"]})
asserts = json.dumps({"assert_case": ["assert double(2) == 4", "assert double(3) == 6"]})
script = "```python\nprint(int(input()) * 2)\n```"
for response, truth, expected in (
    (script, streams, 1.0),
    ("```python\nprint(2)\n```", streams, 0.5),
    (RIGHT, asserts, 1.0),
    (HALF, asserts, 0.5),
    (RIGHT, calls, 1.0),
):
    got = default_compute_score("apps", response, truth, sandbox_fusion_url=url, memory_limit_mb=1024)
    assert got == expected, (response, truth, got)
print("scored")
