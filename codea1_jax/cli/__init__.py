"""The command line: one module per command, each with `add(commands)`, which registers it.

Results go to standard output, everything else to standard error. Exit codes: 0 done, or stopped because the reader of
the results has gone; 1 failed for an external reason, such as a full disk or a judge that died (one line names it; what
was saved is good); 2 bad input (one line names it and the fix); 130 stopped and resumable.

Command modules import JAX and the packages they need inside the function that runs, so that `codea1 --help` is quick
and `codea1 sandbox` works on hosts without an accelerator stack.
"""

import argparse
import logging
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from importlib.metadata import version
from typing import TextIO, cast

from codea1_jax.cli import (
    checkpoint,
    convert,
    data,
    doctor,
    export,
    init,
    plan,
    presets,
    push,
    rehearse,
    report,
    reproduce,
    sandbox,
    selftest,
    serve,
    solve,
    train,
)
from codea1_jax.cli import eval as evaluate
from codea1_jax.cli._arguments import Parser, unknown_options
from codea1_jax.cli._output import Output, ReaderGone, in_words
from codea1_jax.cli._runtime import (
    BAD_INPUT,
    DONE,
    FAILED,
    STOPPED,
    ctrl_c_after_imports,
    leave_out_absent_accelerators,
    use_gpus_as_planned,
)
from codea1_jax.common.errors import Interrupted, UserError
from codea1_jax.runtime.devices import faults_named, shortage_named

# In the order of --help.
COMMANDS = (
    *(init, train, rehearse, checkpoint, convert, export, push, evaluate, serve, solve),
    *(plan, data, presets, report, reproduce, sandbox, doctor, selftest),
)


def main(arguments: Sequence[str] | None = None) -> int:
    with redirect_stdout(cast(TextIO, Output(sys.stdout))), ctrl_c_after_imports():
        try:
            return _run(_parse(arguments), sys.argv[1:] if arguments is None else arguments)
        except UserError as error:
            print(f"codea1: {error}", file=sys.stderr)
            return BAD_INPUT
        except ReaderGone:
            return DONE
        except KeyboardInterrupt:
            print("codea1: stopped", file=sys.stderr)
            return STOPPED
        finally:
            with suppress(ReaderGone, OSError):  # of --help
                sys.stdout.flush()


def _run(options: argparse.Namespace, words: Sequence[str]) -> int:
    from sandbox import SandboxError, SandboxUnavailable  # not for --help

    use_gpus_as_planned()
    leave_out_absent_accelerators()
    for library in ("absl", "gcsfs"):  # both log what they raise, and through absl Orbax warns of our choices
        logging.getLogger(library).setLevel(logging.CRITICAL)
    try:
        with shortage_named(), faults_named():
            code = options.run(options)
        sys.stdout.flush()
        return code
    except SandboxUnavailable as error:
        print(f"codea1: {error}", file=sys.stderr)
        return BAD_INPUT
    except (OSError, SandboxError, FloatingPointError) as error:
        print(f"codea1: {in_words(error)}", file=sys.stderr)
        return FAILED
    except Interrupted as error:
        print(f"codea1: stopped by {error}; continue with: {_resuming(words)}", file=sys.stderr)
        return STOPPED


def _resuming(words: Sequence[str]) -> str:
    return shlex.join(["codea1", *(word for word in words if word != "--resume"), "--resume"])


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="codea1", description="Train and judge a Code LLM and a Test LLM (Code-A1).")
    parser.add_argument("--version", action="version", version=version("codea1-jax"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    options, rest = parser.parse_known_args(arguments)
    # argparse takes no key=value that stands behind an option; they are overrides all the same.
    if rest and ("overrides" not in options or any(word.startswith("-") for word in rest)):
        raise UserError(unknown_options(rest, has_overrides="overrides" in options))
    if rest:
        options.overrides = [*options.overrides, *rest]
    return options


__all__ = ["main"]
