"""Checks collectives over the devices of this process, one of them broken; prints the rows as one JSON line."""

import json

import jax

from codea1_jax.config import Config, load
from codea1_jax.doctor.selftest.checks import perform
from codea1_jax.doctor.selftest.machine import machine_checks

exchange = jax.lax.all_to_all


def loses_a_part(x, *arguments, **settings):
    received = exchange(x, *arguments, **settings)
    return received.at[-1].set(0)


def rows():
    checks = [check for check in machine_checks(load(Config, "micro/a1"), 0.25) if "devices" in check.name]
    return [[row.name, row.passed] for row in perform(checks)]


if __name__ == "__main__":
    sound = rows()
    jax.lax.all_to_all = loses_a_part
    print(json.dumps({"sound": sound, "broken": rows()}))
