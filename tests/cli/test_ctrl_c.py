"""Ctrl-C while a command imports, or Python collects garbage: native modules must not meet it, and none is lost."""

import gc
import importlib
import os
import signal
import sys
import threading
import time

import pytest

from codea1_jax.cli._runtime import stopped_after_imports

SLOW = """
import time
for _ in range(10):
    time.sleep(0.05)
complete = True
"""


def test_ctrl_c_waits_for_the_import_that_is_under_way(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt), stopped_after_imports():
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        importlib.import_module("slow_to_import")
        time.sleep(100)
    assert sys.modules["slow_to_import"].complete


def test_ctrl_c_is_not_lost_in_a_callback_of_the_garbage_collection():
    def collected(phase, _):
        if phase == "start" and not told:
            told.append(phase)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)

    told: list[str] = []
    gc.collect()  # what an earlier test left: Python drops what its finalizers raise
    try:
        with pytest.raises(KeyboardInterrupt), stopped_after_imports():
            gc.callbacks.append(collected)  # not before: another collection could take the only signal
            gc.collect()
            time.sleep(100)
    finally:
        gc.callbacks.remove(collected)


def test_ctrl_c_is_immediate_otherwise_and_as_before_afterwards():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), stopped_after_imports():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(100)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_of_the_caller_stays(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stopped_after_imports():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
