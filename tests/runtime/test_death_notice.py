"""A process that dies leaves its notice, and one that ends leaves none."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys
from codea1_jax.runtime.join import death_notice
with death_notice('the "run" is gone; $HOME') as cancel:
    {}
"""


def ended(how: str) -> tuple[int, str]:
    command = [sys.executable, "-c", PROGRAM.format(how)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV])
def test_a_process_that_is_ended_by_a_signal_leaves_its_notice(number):
    assert ended(f"os.kill(os.getpid(), {number:d})") == (-number, 'the "run" is gone; $HOME\n')


def test_ctrl_c_at_a_terminal_reaches_the_process_and_not_its_notice():
    """A terminal sends SIGINT to a whole group of processes."""
    code, said = ended("os.setpgid(0, 0); signal.signal(signal.SIGINT, signal.SIG_DFL); os.killpg(0, signal.SIGINT)")
    assert (code, said) == (-signal.SIGINT, 'the "run" is gone; $HOME\n')


@pytest.mark.parametrize("how", ["pass", "sys.exit(0)", "cancel(); os._exit(0)", "cancel()"])
def test_a_process_that_ends_by_itself_leaves_none(how):
    assert ended(how) == (0, "")


def test_an_error_is_the_only_thing_that_is_said():
    code, said = ended("sys.exit('codea1: no')")
    assert (code, said) == (1, "codea1: no\n")
