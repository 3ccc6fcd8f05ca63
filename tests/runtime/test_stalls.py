"""A host that stalls shows the stacks of its threads, once; one that works is left alone."""

import threading
import time

from codea1_jax.runtime.stalls import heartbeat, reporting_stalls

GUARD = 100  # seconds; only against a hang


def test_a_host_that_works_or_that_nobody_watches_is_left_alone(capfd):
    with reporting_stalls(2.0):
        for _ in range(30):
            time.sleep(0.1)
            heartbeat()
    with reporting_stalls(None):
        heartbeat()
    heartbeat()
    assert capfd.readouterr().err == ""


def waits_in_vain(shown: threading.Event) -> None:
    assert shown.wait(GUARD)


def test_a_host_that_stalls_shows_where_it_is_and_again_only_after_it_has_worked(capfd):
    def stall() -> str:
        shown, said = threading.Event(), []

        def read() -> None:
            until = time.monotonic() + GUARD
            while "waits_in_vain" not in "".join(said) and time.monotonic() < until:
                said.append(capfd.readouterr().err)
                time.sleep(0.05)
            shown.set()

        reader = threading.Thread(target=read)
        reader.start()
        waits_in_vain(shown)
        reader.join()
        return "".join(said)

    with reporting_stalls(0.3):
        for _ in range(2):
            heartbeat()
            assert stall().count("Timeout") == 1
