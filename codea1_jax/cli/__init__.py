"""The command line: one module per command, whose `add` gives its parser options and the function to run.

Results go to standard output, everything else to standard error. Exit codes: 0 done, or stopped because the reader of
the results has gone; 1 failed for an external reason, such as a full disk or a judge that died (one line names it; what
was saved is good); 2 bad input (one line names it and the fix); 130 stopped and resumable.

Only the module of the command that is named is imported, so that `codea1 --help` is quick and `codea1 sandbox` works on
hosts without an accelerator stack. `train`, `rehearse` and `doctor` have something to do before JAX is imported.
"""

import argparse
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from importlib import import_module
from importlib.metadata import version
from os.path import relpath
from pathlib import Path
from typing import NoReturn, TextIO, cast

from codea1_jax.cli._arguments import Parser, unknown_options
from codea1_jax.cli._output import Output, ReaderGone, in_words, say
from codea1_jax.cli._runtime import (
    BAD_INPUT,
    DONE,
    FAILED,
    STOPPED,
    leave_out_absent_accelerators,
    stopped_after_imports,
    use_gpus_as_planned,
)
from codea1_jax.common.errors import Interrupted, UserError
from codea1_jax.runtime.devices import faults_named, shortage_named

COMMANDS = {
    "init": "write the configuration of a run on your own questions",
    "train": "train both models",
    "rehearse": "run a scaled-down preset here: start, stop, resume, evaluate, export",
    "checkpoint": "what a run has saved",
    "convert": "write a policy of a run in the Hugging Face format",
    "export": "rollouts and suites for other tools",
    "push": "upload a run's models, and its rollouts, to the Hugging Face Hub",
    "eval": "measure programs and tests on benchmarks",
    "serve": "serve a policy over HTTP (OpenAI's completions and chat) and gRPC (JetStream's)",
    "solve": "write programs, and print the one that fails the fewest generated tests",
    "plan": "show whether a run fits some hardware, and how long a step will take",
    "data": "datasets of problems",
    "presets": "list the shipped presets",
    "report": "write a run's report.html",
    "reproduce": "train, evaluate and write the paper's tables",
    "sandbox": "the judge by itself",
    "doctor": "check your setup and suggest fixes",
    "selftest": "test this machine's attention kernels",
}
"""What each command does, in the order of --help; its module is imported where it is named."""


def main(arguments: Sequence[str] | None = None) -> int:
    with redirect_stdout(cast(TextIO, Output(sys.stdout))), stopped_after_imports():
        try:
            return _run(sys.argv[1:] if arguments is None else arguments)
        except UserError as error:
            say(f"codea1: {error}")
            return BAD_INPUT
        except ReaderGone:
            return DONE
        except KeyboardInterrupt:
            say("codea1: stopped")
            return STOPPED
        finally:
            with suppress(ReaderGone, OSError):  # of --help
                sys.stdout.flush()


def run_and_exit() -> NoReturn:
    """`main` as a process of its own, which, once stopped, does not wait for programs that still are being compiled."""
    code = main()
    if code == STOPPED:
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _run(words: Sequence[str]) -> int:
    use_gpus_as_planned()
    leave_out_absent_accelerators()
    options = _parse(words)
    from sandbox import SandboxError, SandboxUnavailable  # not for --help

    for library in ("absl", "gcsfs"):  # both log what they raise, and through absl Orbax warns of our choices
        logging.getLogger(library).setLevel(logging.CRITICAL)
    try:
        with shortage_named(), faults_named():
            code = options.run(options)
        sys.stdout.flush()
        return code
    except SandboxUnavailable as error:
        say(f"codea1: {error}")
        return BAD_INPUT
    except (OSError, SandboxError, FloatingPointError) as error:
        say(f"codea1: {in_words(error)}")
        return FAILED
    except Interrupted as error:
        say(f"codea1: stopped by {error}; continue with: {_resuming(words)}")
        return STOPPED


def _resuming(words: Sequence[str]) -> str:
    called = Path(sys.argv[0])  # by its path where the shell finds no other
    name = relpath(called) if called.name == "codea1" and shutil.which("codea1") is None else "codea1"
    return shlex.join([name, *(word for word in words if word != "--resume"), "--resume"])


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="codea1", description="Train and judge a Code LLM and a Test LLM (Code-A1).")
    parser.add_argument("--version", action="version", version=version("codea1-jax"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    parsers = {name: commands.add_parser(name, help=text) for name, text in COMMANDS.items()}
    named = next((word for word in words if not word.startswith("-")), "")
    if named in parsers:
        import_module(f"codea1_jax.cli.{named}").add(parsers[named])
    options, rest = parser.parse_known_args(words)
    # argparse takes no key=value that stands behind an option; they are overrides all the same.
    if rest and ("overrides" not in options or any(word.startswith("-") for word in rest)):
        raise UserError(unknown_options(rest, has_overrides="overrides" in options))
    if rest:
        options.overrides = [*options.overrides, *rest]
    return options
