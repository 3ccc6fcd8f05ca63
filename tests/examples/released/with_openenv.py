"""Plays episodes of the environment of examples/ over its server, as OpenEnv's clients do."""

import threading
import time

import uvicorn
from openenv.core.generic_client import GenericEnvClient
from openenv_environment import app

server = uvicorn.Server(uvicorn.Config(app(), port=0, log_level="warning"))
thread = threading.Thread(target=server.run)
thread.start()
while not server.started:
    time.sleep(0.05)
port = server.servers[0].sockets[0].getsockname()[1]
try:
    with GenericEnvClient(base_url=f"http://127.0.0.1:{port}").sync() as client:
        for text, reward in (
            ("```python\ndef double(x):\n    return x + x\n```", 1.0),
            ("```python\ndef double(x):\n    return 4\n```", 0.5),
            ("```python\nimport os\nos._exit(0)\n```", 0.0),
        ):
            asked = client.reset(seed=0)
            assert asked.observation["text"] == "Write double(x).", asked
            answered = client.step({"text": text})
            assert (answered.reward, answered.done) == (reward, True), answered
finally:
    server.should_exit = True
    thread.join()
print("played")
