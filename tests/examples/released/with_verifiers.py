"""Scores traces by the taskset of examples/, as verifiers does at the end of a rollout."""

import asyncio
import os
from pathlib import Path

import verifiers.v1 as vf
from verifiers_taskset import CodeConfig, CodeTaskset

taskset = CodeTaskset(CodeConfig(path=Path(os.environ["QUESTIONS"])))
(task,) = taskset
assert task.data.prompt == "Write double(x)." and task.data.idx == 0


def trace_of(text: str) -> vf.Trace:
    message = vf.AssistantMessage(content=text)
    node = vf.MessageNode(message=message, sampled=True)
    agent = vf.AgentInfo(config=vf.AgentConfig())
    return vf.Trace(task=vf.TraceTask(type="CodeTask", data=task.data), agent=agent, nodes=[node])


for text, reward in (
    ("```python\ndef double(x):\n    return x + x\n```", 1.0),
    ("```python\ndef double(x):\n    return 4\n```", 0.5),
    ("```python\nimport os\nos._exit(0)\n```", 0.0),
):
    trace = trace_of(text)
    asyncio.run(task.score(trace))
    (scored,) = trace.rewards.values()
    assert scored is not None and scored.value == reward, trace.rewards
print("scored")
