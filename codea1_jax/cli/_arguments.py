import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from codea1_jax.common.errors import UserError
from codea1_judge.cli import positive


class Parser(argparse.ArgumentParser):
    """Raises UserError, as whatever else refuses input, instead of printing its usage.

    Options are not abbreviated: a slip must not start a run of hours.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings | {"allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see `{self.prog} --help`")


def add_preset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("preset", help="a preset's name or a YAML file")
    parser.add_argument("overrides", nargs="*", default=[], metavar="key=value", help="for example rollout.samples=4")


def add_judge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--environment",
        type=Path,
        metavar="VENV",
        help="virtual environment whose packages judged programs may import, as BigCodeBench's; default: this one",
    )
    parser.add_argument("--workers", type=positive, help="jails; default: seven for every eight cores")


def unknown_options(words: Sequence[str], *, has_overrides: bool) -> str:
    """The refusal of what no option is called, with the keys that may be meant."""
    from codea1_jax.config import Config
    from codea1_jax.config.presets import keys_of

    refusal = f"unrecognized arguments: {' '.join(words)}"
    option, equals, value = words[0].removeprefix("--").replace("-", "_").partition("=")
    meant = has_overrides and words[0].startswith("--")
    keys = [key for key in keys_of(Config) if meant and f".{key}".endswith(f".{option}")]
    value = value if equals else next((word for word in words[1:2] if not word.startswith("-")), "VALUE")
    return f"{refusal}; write {' or '.join(f'{key}={value}' for key in keys)}" if keys else refusal


@contextmanager
def blamed_on(option: str) -> Iterator[None]:
    """Inside it, whatever refuses a value (ValueError, UserError) is a UserError that names the option."""
    try:
        yield
    except ValueError as error:
        raise UserError(f"{option}: {error}") from error
