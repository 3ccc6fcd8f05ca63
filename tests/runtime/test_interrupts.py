"""Signals become an exception where nothing is half done."""

import gc
import io
import logging
import runpy
import signal
import time

import pytest

from codea1_jax.common.errors import Interrupted
from codea1_jax.runtime import interrupts
from codea1_jax.runtime.interrupts import SIGNALS, Interrupts


def send(number: int) -> None:
    """Delivered to this very thread, before the next statement runs."""
    signal.raise_signal(number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_raises_at_once_and_names_itself(number):
    with pytest.raises(Interrupted, match=signal.Signals(number).name), Interrupts():
        send(number)
        pytest.fail("continued after the signal")


def test_a_run_under_nohup_outlives_its_terminal():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        heeded = runpy.run_path(interrupts.__file__)["SIGNALS"]
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (signal.SIGHUP in SIGNALS, signal.SIGHUP in heeded, signal.SIGTERM in heeded) == (True, False, True)


@pytest.mark.parametrize("times", [1, 2])  # schedulers send several
def test_a_shield_is_finished_first_however_often_it_is_asked(times, capfd):
    done = []
    with pytest.raises(Interrupted, match="SIGTERM"), Interrupts() as interrupts:
        with interrupts.shield():
            done.append("before")
        with interrupts.shield():
            for _ in range(times):
                send(signal.SIGTERM)
            done.append("inside")
        done.append("after")
    assert done == ["before", "inside"]
    assert capfd.readouterr().err.count("Ctrl-C again stops at once") == 1


def test_a_second_ctrl_c_during_a_shield_is_obeyed_at_once():
    done = []
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts, interrupts.shield():
        send(signal.SIGTERM)
        send(signal.SIGINT)
        done.append("still inside")
    assert done == []


def test_a_scheduler_that_says_it_again_before_what_must_be_saved_is_shielded_is_heard_once():
    done = []
    with pytest.raises(Interrupted, match="SIGTERM"), Interrupts() as interrupts:
        try:
            send(signal.SIGTERM)
        except Interrupted:
            send(signal.SIGTERM)
            with interrupts.shield():
                done.append("saved")
            raise
    assert done == ["saved"]


def test_an_error_inside_a_shield_is_not_hidden_by_a_signal():
    with pytest.raises(OSError, match="disk"), Interrupts() as interrupts, interrupts.shield():
        send(signal.SIGINT)
        raise OSError("disk full")


def test_afterwards_signals_mean_what_they_meant_before():
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(Interrupted), Interrupts():
        send(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts, interrupts.shield():
        send(signal.SIGINT)
        send(signal.SIGINT)
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_signal_during_a_callback_that_drops_exceptions_is_sent_again():
    seen = []

    def collected(phase, info):
        if not seen:
            seen.append(phase)
            send(signal.SIGINT)

    gc.callbacks.append(collected)
    try:
        with pytest.raises(Interrupted, match="SIGINT"), Interrupts():
            gc.collect()
            time.sleep(60)
    finally:
        gc.callbacks.remove(collected)
    assert seen == ["start"]


def test_a_signal_while_a_line_is_logged_is_not_dropped_with_the_line():
    class Formatter(logging.Formatter):
        def format(self, record):
            send(signal.SIGTERM)
            return record.getMessage()

    handler, log = logging.StreamHandler(io.StringIO()), logging.getLogger("interrupted")
    handler.setFormatter(Formatter())
    log.addHandler(handler)
    try:
        with pytest.raises(Interrupted, match="SIGTERM"), Interrupts():
            log.warning("a step ended")
    finally:
        log.removeHandler(handler)


def test_other_exceptions_that_are_dropped_are_reported_as_ever(monkeypatch):
    reported = []
    monkeypatch.setattr("sys.unraisablehook", lambda dropped: reported.append(dropped.exc_type))

    class Broken:
        def __del__(self):
            raise OSError

    with Interrupts():
        Broken()
        gc.collect()
    assert reported == [OSError]
