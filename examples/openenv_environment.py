"""OpenEnv: an environment of one step, in which an agent answers a question with a program.

    uvicorn --factory openenv_environment:app

`QUESTIONS` names a file of rows {question, tests}, one JSON object a line (https://huggingface.co/docs/openenv).
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

from codea1_judge import Judge, program_in

judge = cache(Judge)  # one in each process; `Judge(address="http://HOST:8787")` judges elsewhere


class Response(Action):
    text: str


class Question(Observation):
    text: str


class CodeEnvironment(Environment[Response, Question, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Question:
        rows = Path(os.environ["QUESTIONS"]).read_text().splitlines()
        self._row = json.loads(rows[(seed or 0) % len(rows)])
        self._state = State(episode_id=episode_id)
        return Question(text=self._row["question"])

    def step(self, action: Response, timeout_s: float | None = None, **_: Any) -> Question:
        self._state.step_count += 1
        verdicts = judge().judge(program_in(action.text), self._row["tests"])
        return Question(text=self._row["question"], done=True, reward=verdicts.share)

    @property
    def state(self) -> State:
        return self._state


def app() -> Any:
    return create_fastapi_app(CodeEnvironment, Response, Question)
