"""`codea1 sandbox`: the judge by itself."""

from codea1_jax.cli._arguments import Commands
from codea1_judge.cli import add_commands


def add(commands: Commands) -> None:
    judge = commands.add_parser("sandbox", help="the judge by itself")
    add_commands(judge.add_subparsers(required=True, metavar="COMMAND"))
