"""Values of every kind of plain data, by expression: what a reference may return."""

from pathlib import Path
from typing import Any

IMPORTS = """
import datetime, math
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from datetime import date, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
P = namedtuple("P", "x y")
Q = namedtuple("Q", ["a", "b"])
class R(NamedTuple):
    count: int
    y: int = 2
    def total(self): return self.count + self.y
utc = timezone.utc
east = timezone(timedelta(hours=1), "CET")
west = timezone(-timedelta(hours=5, minutes=30))
moment = datetime.datetime
"""
NUMPY = "import numpy\n"

# Expressions of one line are all equal, and different from those of other lines, mostly.
FILE = Path(__file__).parents[1] / "fixtures" / "plain_values.txt"
LINES = [line.split(" | ") for line in FILE.read_text().splitlines()]
REFERENCES = [expression for line in LINES for expression in line]


def value_of(expression: str) -> Any:
    names: dict[str, Any] = {}
    exec(IMPORTS, names)
    return eval(expression, names)


def program(expression: str) -> str:
    return f"{IMPORTS}{NUMPY if 'numpy' in expression else ''}def f(x):\n    return {expression}\n"
