"""A host that stalls says so, with the stacks of its threads, and ends if it is asked to."""

import subprocess
import sys
import threading
import time

import pytest

from codea1_jax.common.errors import Interrupted
from codea1_jax.runtime.interrupts import Interrupts
from codea1_jax.runtime.stalls import StallWatch, heartbeat

GUARD = 100  # seconds; only against a hang


def test_a_host_that_works_is_left_alone(capfd):
    """The watch looks several times in what it allows; each time something was done a moment ago."""
    with StallWatch(2.0):
        for _ in range(30):
            time.sleep(0.1)
            heartbeat("a block of tokens was drawn")
    assert capfd.readouterr().err == ""


def waits_in_vain(shown: threading.Event) -> None:
    assert shown.wait(GUARD)


def test_a_host_that_stands_still_names_its_last_heartbeat_and_where_it_is_once_and_that_it_continues(capfd):
    shown, said = threading.Event(), []

    def read() -> None:
        until = time.monotonic() + GUARD
        while not shown.is_set() and time.monotonic() < until:
            said.append(capfd.readouterr().err)
            if said[-1].count("waits_in_vain"):
                time.sleep(1)  # in which a watch that repeats itself would
                shown.set()
            time.sleep(0.05)

    with StallWatch(0.3):
        heartbeat("the judge answered")
        reader = threading.Thread(target=read)
        reader.start()
        waits_in_vain(shown)
        reader.join()
        heartbeat("a save began")
        until = time.monotonic() + GUARD
        while "continues: a save began" not in "".join(said) and time.monotonic() < until:
            said.append(capfd.readouterr().err)
            time.sleep(0.05)
    text = "".join(said)
    assert text.count("host 0 of 1 stalled: nothing for 0 s since the judge answered") == 1
    assert text.index("since the judge answered") < text.index("waits_in_vain") < text.index("continues: a save began")


def test_it_ends_as_if_it_had_been_told_to_stop_if_it_may(capfd):
    with pytest.raises(Interrupted, match="SIGTERM"), Interrupts(), StallWatch(0.2, stop=True):
        threading.Event().wait(GUARD)
    assert "is asked to stop (hosts.stop_on_stall)" in capfd.readouterr().err


def test_a_process_that_cannot_stop_is_ended():
    """A shield holds the signal back, as a collective whose peer hangs does."""
    stuck = (
        "import threading\n"
        "from codea1_jax.runtime.interrupts import Interrupts\n"
        "from codea1_jax.runtime.stalls import StallWatch\n"
        "with StallWatch(0.2, stop=True, save_seconds=0.2), Interrupts() as interrupts, interrupts.shield():\n"
        f"    threading.Event().wait({GUARD})\n"
    )
    ended = subprocess.run([sys.executable, "-c", stuck], capture_output=True, text=True, timeout=GUARD, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith("what was saved is good: resume with --resume")
