"""Values of every kind of plain data, by expression: what a reference may return."""

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

# What a reference may return, by expression. Those of one line are all different from those of other lines, mostly.
EXPRESSIONS = """
None
0 | False | 0.0 | -0.0 | 0j | Decimal("-0") | Decimal("0E+99999999") | Fraction(0)
1 | True | 1.0 | 1 + 0j | Decimal("1.00") | Fraction(3, 3)
-7 | Fraction(-14, 2) | Decimal("-70E-1")
0.1 | Decimal(0.1) | Fraction(0.1)
Decimal("0.1") | Fraction(1, 10)
0.5 | Decimal("0.50") | Fraction(1, 2)
1 / 3
Fraction(1, 3)
5e-324 | Decimal(5e-324) | Fraction(1, 2**1074)
Fraction(1, 2**1075)
1e22 | 10**22 | Decimal("1e22")
10**30 | Decimal("1E+30")
1e30 | Fraction(1e30)
2**53 | float(2**53)
2**53 + 1 | Fraction(2**53 + 1)
10**400 | Decimal("1e400")
10**5000 | Decimal("1e5000") | Fraction(10**5000)
10**5000 + 1
Fraction(1, 10**5000) | Decimal("1e-5000")
Decimal("12e200000") | Decimal("1.20e200001")
math.inf | Decimal("Infinity")
-math.inf | Decimal("-Infinity")
1j | complex(-0.0, 1)
"" | str()
"1"
"nan"
"None"
"a'"
'a"'
"a\\\\'"
"\\\\x41"
"A"
"\\x00"
["a", "b"]
['a", "b']
"ab" | "".join(["a", "b"])
b"" | bytearray()
b"ab" | bytearray(b"ab")
[] | list()
() | tuple([])
[1, 2] | [True, Decimal(2)]
(1, 2) | P(1, 2) | Q(1.0, 2) | R(1) | R(Fraction(1), 2)
(1,)
deque() | deque([], 5)
deque([1, 2]) | deque([1.0, 2], maxlen=2)
deque([2, 1])
deque([(1, 2)]) | deque([P(1, 2)])
range(0) | range(2, 2) | range(5, 0) | range(0, -1, 7)
range(3) | range(0, 3, 1)
range(0, 5, 2) | range(0, 6, 2)
range(4, 5) | range(4, 9, 9) | range(4, 0, -4)
range(10**30) | range(0, 10**30, 1)
set() | frozenset() | {}.keys() | {}.items()
{1, 2} | frozenset([2, 1.0]) | {1: "a", 2: "b"}.keys() | {Decimal(1), Fraction(2)}
{(1, 2)} | {1: 2}.items() | {P(1, 2)}
{} | Counter() | OrderedDict() | defaultdict(list)
{"a": 1} | Counter("a") | OrderedDict(a=1) | defaultdict(int, a=1) | {"a": Fraction(1)}
{"a": 2, "b": 1} | Counter("aba") | OrderedDict(b=1, a=2) | defaultdict(lambda: 0, b=1.0, a=2)
{"a": 1, "b": 0}
Counter(a=-1)
{1: "x"} | {True: "x"} | {1.0: "x"} | {Decimal(1): "x"} | {Fraction(1): "x"}
{0.5: [1]} | {Fraction(1, 2): [1]}
{(1, 2): {3}} | {P(1, 2): frozenset([3])} | OrderedDict([((1, 2), {3})])
{"a": OrderedDict(b=Counter("c"))} | {"a": {"b": {"c": 1}}}
[Counter("aab"), deque([1]), {1}] | [{"b": 1, "a": 2}, deque([True], 9), frozenset([1])]
P([1], {2: 3}) | ([1], Counter({2: 3}))
date(2020, 2, 29) | moment(2020, 2, 29, 5).date()
moment(2020, 2, 29) | moment(2020, 2, 29, fold=1)
moment(2020, 2, 29, 12, tzinfo=utc) | moment(2020, 2, 29, 13, tzinfo=east) | moment(2020, 2, 29, 6, 30, tzinfo=west)
moment(2020, 2, 29, 12, 0, 0, 1, tzinfo=utc)
moment.min.replace(tzinfo=east)
moment.max.replace(tzinfo=west)
time(1, 2) | time(1, 2, fold=1)
time(1, 2, tzinfo=utc) | time(2, 2, tzinfo=east)
time(0, tzinfo=east)
time(23, tzinfo=utc)
timedelta(1) | timedelta(hours=24)
timedelta(0)
timedelta(microseconds=-1)
utc | timezone(timedelta(0), "GMT")
east | timezone(timedelta(hours=1))
{date(2020, 1, 1): [time(1)]} | OrderedDict([(date(2020, 1, 1), [time(1)])])
"x" * 1998 | "x" * 1998
"x" * 1999
"x" * 2001
"\\u00e9" * 70_000 | "".join(["\\u00e9"] * 70_000)
"\\U0001f600"
"\\ud83d\\ude00"
b"\\x00\\xff" * 40_000 | bytearray(b"\\x00\\xff" * 40_000)
[1] * 999 | [True] * 999
[1] * 1000 | [1.0] * 1000
[1] * 1001 | [True] * 1001
[0.5] * 3000 | [Fraction(1, 2)] * 3000
tuple([1] * 1001) | tuple([Decimal(1)] * 1001)
deque([1] * 1001) | deque([True] * 1001, 2000)
set(range(2000)) | frozenset(map(float, reversed(range(2000))))
dict.fromkeys(range(2000), 1) | Counter(range(2000)) | OrderedDict.fromkeys(map(float, reversed(range(2000))), True)
{"a": [2] * 5000} | defaultdict(None, a=[2.0] * 5000)
[[i, i + 1] for i in range(30_000)] | [[float(i), i + 1] for i in range(30_000)]
[(i, str(i)) for i in range(30_000)] | [P(i, str(i)) for i in range(30_000)]
[[[0] * 40] * 40] * 40 | [[[False] * 40 for _ in range(40)] for _ in range(40)]
list(range(300_000)) | [*range(300_000)]
"""
LINES = [line.split(" | ") for line in EXPRESSIONS.strip().splitlines()]
REFERENCES = [expression for line in LINES for expression in line]


def value_of(expression: str) -> Any:
    names: dict[str, Any] = {}
    exec(IMPORTS, names)
    return eval(expression, names)


def program(expression: str) -> str:
    return f"{IMPORTS}{NUMPY if 'numpy' in expression else ''}def f(x):\n    return {expression}\n"
