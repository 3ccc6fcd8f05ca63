"""Runs the command line, and sends this very process a signal once a stage of training was entered.

Arguments: the stage, at which of its entries, the delay in seconds (0: at once), the signal, and then those of the
command line.
"""

import os
import signal
import sys
import threading

from codea1_jax.cli import main
from codea1_jax.game import round as game_round
from codea1_jax.learn import Learner
from codea1_jax.rollout import Sampler
from codea1_jax.runtime.checkpoints import Checkpoints

STAGES = {
    "generation": (Sampler, "generate"),
    "judging": (game_round, "_judgements"),
    "update": (Learner, "update"),
    "checkpoint": (Checkpoints, "save"),
}


def arm(stage, entry, delay, number):
    owner, name = STAGES[stage]
    works, entries = getattr(owner, name), []

    def armed(*arguments, **options):
        entries.append(None)
        if len(entries) == entry and not delay:
            os.kill(os.getpid(), number)
        elif len(entries) == entry:
            threading.Timer(delay, os.kill, (os.getpid(), number)).start()
        return works(*arguments, **options)

    setattr(owner, name, armed)


if __name__ == "__main__":
    stage, entry, delay, name = sys.argv[1:5]
    arm(stage, int(entry), float(delay), signal.Signals[name])
    sys.exit(main(sys.argv[5:]))
