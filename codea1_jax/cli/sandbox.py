"""`codea1 sandbox`: the judge by itself."""

import argparse

from codea1_judge.cli import add_commands


def add(parser: argparse.ArgumentParser) -> None:
    add_commands(parser.add_subparsers(required=True, metavar="COMMAND"))
