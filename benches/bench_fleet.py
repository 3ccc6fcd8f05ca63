"""How a fleet of judges grows: `make bench-fleet`. Programs per second of several replicas, and of one.

Each replica is a service of this host with one worker, which the launcher starts. The client and the services' own work
take cores of their own: with fewer cores than twice the replicas the share of linear says little. Ends with one line of
JSON.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench_sandbox import jobs, seconds

from sandbox.remote.client import RemoteJudge

PROGRAMS = 200  # of a round, for each replica
PORT = 18_900


@contextmanager
def fleet(replicas: int, port: int) -> Iterator[RemoteJudge]:
    """A client of that many replicas, which have each begun to judge."""
    command = ("-m", "launch", "judge", "up", "--kind=local", f"--replicas={replicas}", f"--port={port}")
    words = [sys.executable, *command, "--", "--workers=1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as launcher:
        try:
            assert launcher.stdout is not None
            with RemoteJudge(re.findall(r"http://[^,\]]+", launcher.stdout.readline())) as judge:
                judge.execute(jobs(20 * replicas))
                yield judge
        finally:
            launcher.terminate()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--replicas", type=int, default=max(2, (os.cpu_count() or 1) // 2))
    arguments.add_argument("--rounds", type=int, default=5)
    chosen = arguments.parse_args()
    count = chosen.replicas
    with fleet(1, PORT) as one, fleet(count, PORT + 1) as all_of_them:
        speeds = [
            (
                PROGRAMS / seconds(lambda: one.execute(jobs(PROGRAMS))),
                PROGRAMS * count / seconds(lambda: all_of_them.execute(jobs(PROGRAMS * count))),
            )
            for _ in range(chosen.rounds)
        ]
    single, fleets = (statistics.median(each) for each in zip(*speeds, strict=True))
    share = statistics.median(many / (count * first) for first, many in speeds)
    print(f"1 replica {single:.0f} programs/s, {count} replicas {fleets:.0f}: {share:.2f} of linear")
    figures = {"replicas": count, "programs_per_second": {"one": single, "all": fleets}}
    print(json.dumps({"bench": "fleet", "ratios": {"linear": share}, **figures}))


if __name__ == "__main__":
    main()
