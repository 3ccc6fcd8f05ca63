"""verl: a custom reward function, for rows whose `reward_model.ground_truth` is a JSON list of tests.

    reward.custom_reward_function.path=examples/verl_reward.py reward.custom_reward_function.name=compute_score

verl calls it once for each response, from many threads
(https://verl.readthedocs.io/en/latest/preparation/reward_function.html).
"""

import json
from functools import cache
from typing import Any

from codea1_judge import Judge, program_in

judge = cache(Judge)  # one in each process; `Judge(address="http://HOST:8787")` judges elsewhere


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any) -> float:
    """The share of its tests that a program passes. An outage of the judge raises: it must not become a reward."""
    return judge().judge(program_in(solution_str), json.loads(ground_truth)).share
