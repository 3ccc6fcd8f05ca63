"""Run by test_train_hosts.py: `codea1 train` in which one stage takes a minute from some step on.

Arguments: the stage ("generation", "update of code" or "update of test"), how many steps come before it, a
file that is made when the stage begins to take long, and the arguments of codea1.
"""

import sys
import time
from pathlib import Path

import codea1_jax.training.loop
from codea1_jax.cli import main
from codea1_jax.learn import Learner
from codea1_jax.rollout.decode import Decoder
from codea1_jax.runtime import agreement

MINUTE = 60.0


def slow(stage: str, steps: int, marker: Path) -> None:
    """Makes a stage slow: what the devices compute in it is late."""
    learn, decode = codea1_jax.training.loop.learn, Decoder.__call__
    gradient, are_ready = Learner._gradient, agreement._are_ready
    learned = []  # a state for each step
    policies = {}  # by learner
    late = [0.0]  # until then devices have nothing ready

    def begin(now: str) -> bool:
        begins = stage == now and len(learned) == steps
        if begins:
            marker.touch()
        return begins

    def slow_learn(training, state, *arguments):
        policies.update({learner: name for name, learner in training.policies.learners.items()})
        learned.append(learn(training, state, *arguments))
        return learned[-1]

    def slow_decode(self, *arguments):
        late[0] = time.monotonic() + MINUTE if begin("generation") else 0.0
        return decode(self, *arguments)

    def slow_gradient(self, *arguments):
        late[0] = time.monotonic() + MINUTE if begin(f"update of {policies[self]}") else 0.0
        return gradient(self, *arguments)

    codea1_jax.training.loop.learn = slow_learn
    Decoder.__call__ = slow_decode
    Learner._gradient = slow_gradient
    agreement._are_ready = lambda arrays: time.monotonic() > late[0] and are_ready(arrays)


if __name__ == "__main__":
    stage, steps, marker, *arguments = sys.argv[1:]
    slow(stage, int(steps), Path(marker))
    sys.exit(main(arguments))
