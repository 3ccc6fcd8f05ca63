"""Run by test_sharing.py in processes of their own: one round that several hosts judge together.

Prints one JSON line {"rewards": every program's and suite's, question by question, "jobs": programs judged here}.
Arguments: process count, process index and the coordinator's address.
"""

import json
import sys
from pathlib import Path

import jax

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripted import scripted_table

from codea1_jax.game import Rules, play_round
from codea1_jax.game.golden import play_golden
from codea1_jax.game.rewards import RewardConfig
from codea1_jax.game.scoring import Scoring
from data_pipeline import Problem
from sandbox import SandboxPool

PROGRAMS = ["def f(x): return x + {}", "def f(x): return x * x + {}", "def f(x) return x"]
SUITES = ["assert f(1) == 2\nassert f(0) == 3\nassert f('a') == 1", "assert f(2) == 5\nassert f(2) == 5"]
RULES = Rules(samples=3, suites=2, share_programs=False, test_prompt_tokens=1000, scoring=Scoring(RewardConfig(), 1))


class Counting(SandboxPool):
    """A pool that counts the programs it runs."""

    jobs = 0

    def submit(self, job):
        self.jobs += bool(job.program)
        return super().submit(job)


def played() -> dict:
    """What this host has to tell."""
    golden = ("assert f(1) == 2", "assert f(3) == 4")
    problems = [Problem(str(n), f"Add {n}.", f"def f(x): return x + {n}", "f", golden) for n in range(5)]
    programs = {problem.question: [p.format(n) for p in PROGRAMS] for n, problem in enumerate(problems)}
    suites = {(question, program): SUITES for question, written in programs.items() for program in written}
    with Counting(workers=1, backend="process") as pool:
        table = scripted_table(pool, programs, suites)
        rounds = [play_round(table, problems, {}, (0,), RULES), play_golden(table, problems, (0,), RULES)]
        judged = [program for each in rounds for question in each.questions for program in question.programs]
        rewards = [[program.reward, *(suite.reward.reward for suite in program.suites)] for program in judged]
        return {"rewards": rewards, "jobs": pool.jobs}


if __name__ == "__main__":
    address, count, index = sys.argv[1:]
    jax.distributed.initialize(address, int(count), int(index))
    print(json.dumps(played()))
