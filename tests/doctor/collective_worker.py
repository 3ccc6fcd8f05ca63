"""Checks collectives over the devices of this process, one of them broken; prints the rows as one JSON line."""

import json

from codea1_jax.config import Config, load
from codea1_jax.doctor.selftest.checks import perform
from codea1_jax.doctor.selftest.machine import COLLECTIVES, machine_checks

EXCHANGE, EXPECTED = COLLECTIVES["all-to-all"]


def loses_a_part(x):
    return EXCHANGE(x).at[-1].set(0)


def rows():
    checks = [check for check in machine_checks(load(Config, "micro/a1")) if "devices" in check.name]
    return [[row.name, row.passed] for row in perform(checks)]


if __name__ == "__main__":
    sound = rows()
    COLLECTIVES["all-to-all"] = loses_a_part, EXPECTED
    print(json.dumps({"sound": sound, "broken": rows()}))
