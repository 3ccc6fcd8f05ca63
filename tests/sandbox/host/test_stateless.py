# ruff: noqa: E501  (a program a line)
import pytest

from sandbox import Job, SandboxPool
from sandbox.host.stateless import keeps_no_state

KEEPS = {
    "a default": "def f(x, seen=[]):\n    seen.append(x)\n    return len(seen)",
    "a default by keyword": "def f(x, *, seen={}):\n    seen[x] = 1\n    return len(seen)",
    "a global list": "seen = []\ndef f(x):\n    seen.append(x)\n    return len(seen)",
    "a list under another name": "seen = [0]\ndef f(x):\n    other = seen\n    other[0] += 1\n    return other[0]",
    "a list given away": "seen = [0]\ndef add(s):\n    s[0] += 1\n    return s[0]\ndef f(x):\n    return add(seen)",
    "a counter": "n = 0\ndef f(x):\n    global n\n    n += 1\n    return n",
    "a function's attribute": "def f(x):\n    f.n = getattr(f, 'n', 0) + 1\n    return f.n",
    "a function's dict": "def f(x):\n    d = vars(f)\n    d['n'] = d.get('n', 0) + 1\n    return d['n']",
    "a class": "class C:\n    n = 0\ndef f(x):\n    C.n += 1\n    return C.n",
    "a closure": "def make():\n    seen = []\n    def g(x):\n        seen.append(x)\n        return len(seen)\n    return g\nf = make()",
    "a generator": "def count():\n    n = 0\n    while True:\n        n += 1\n        yield n\nnumbers = count()\ndef f(x):\n    return next(numbers)",
    "an iterator": "import itertools\nnumbers = itertools.count(1)\ndef f(x):\n    return next(numbers)",
    "a module": "import sys\ndef f(x):\n    sys.n = getattr(sys, 'n', 0) + 1\n    return sys.n",
    "a module's module": "import typing\ndef f(x):\n    m = typing.sys.modules\n    m['n'] = m.get('n', 0) + 1\n    return m['n']",
    "a module under another name": "import typing\nt = typing\ndef f(x):\n    return len(t.sys.path)",
    "a dunder": "def f(x):\n    d = f.__dict__\n    d['n'] = d.get('n', 0) + 1\n    return d['n']",
    "exec": "def f(x):\n    exec('n = 1', globals())\n    return n",
    "a cache": "from functools import lru_cache\n@lru_cache(None)\ndef f(x):\n    return x",
    "random numbers": "import random\ndef f(x):\n    return random.random()",
    "a lambda's default": "f = lambda x, seen=[]: seen.append(x) or len(seen)",
    "a table of tables": "seen = {'a': []}\ndef f(x):\n    seen['a'].append(x)\n    return len(seen['a'])",
    "a table that is changed": "seen = {'a': 0}\ndef f(x):\n    seen['a'] += 1\n    return seen['a']",
    "a table that is deleted from": "seen = {1: 1, 2: 2}\ndef f(x):\n    seen.popitem()\n    return len(seen)",
    "typing's cache": "from typing import Literal\nn = [0]\ndef f(x):\n    n[0] += 1\n    return str(Literal[((0, 1 if n[0] > 1 else 1.0),)])",
    "typing's cache in one call": "from typing import Literal\ndef f(x):\n    return str(Literal[((0, [1, 1.0][x]),)])",
    "typing's cache by module": "import typing\ndef f(x):\n    return str(typing.List[typing.Literal[[1, 1.0][x]]])",
    "typing's cache under another name": "import typing as t\nfrom typing import Union as U\ndef f(x):\n    return str(U[int, [True, 1][x]])",
    "typing's cache in a default": "from typing import Literal\ndef f(x, kind=Literal[1]):\n    return str(kind)",
    "the cache of re": "import re\ndef f(x):\n    text = ''.join(['a', 'b'])\n    return re.compile(text).pattern is text",
    "the cache of re by a group": "import re\ndef f(x):\n    name = ''.join(['a', 'b'])\n    return [k is name for k in re.match(f'(?P<{name}>)', '').groupdict()]",
    "a read-only table": "NUMERALS = {'I': 1, 'V': 5}\nVOWELS = ['a', 'e']\ndef f(x):\n    return NUMERALS[x], NUMERALS.get(x), x in VOWELS",
    "not Python": "def f(x",
}
COUNTS = "    g['n'] = g.get('n', 0) + 1\n    return g['n']"
KEEPS |= {  # attacks that once succeeded
    "walrus": "(C := [])\ndef f(x):\n    C.append(x)\n    return len(C)",
    "walrus in an annotation": "def f(x: (C := [])):\n    C.append(x)\n    return len(C)",
    "walrus and a cache": "from functools import lru_cache\ndef g(x):\n    return []\n(h := lru_cache(None)(g))\n"
    "def f(x):\n    h(0).append(x)\n    return len(h(0))",
    "not main": "if __name__ != '__main__':\n    C = []\ndef f(x):\n    C.append(x)\n    return len(C)",
    "max gives the table": "C = [1]\ndef f(x):\n    c = max(C, [])\n    c.append(x)\n    return len(c)",
    "min gives the table": "C = [1]\ndef f(x):\n    c = min(C, [5])\n    c += [x]\n    return len(c)",
    "sum gives the table": "C = {1: 2}\ndef f(x):\n    c = sum([], C)\n    c[x + 10] = x\n    return len(c)",
    "a function called list": "C = [1]\ndef list(x):\n    return x\ndef f(x):\n    c = list(C)\n    c.append(x)\n    return len(c)",
    "attrgetter": f"from operator import attrgetter\ndef f(x):\n    g = attrgetter('__globals__')(f)\n{COUNTS}",
    "a bound method's list": "from operator import attrgetter\nC = [1]\ndef f(x):\n    c = attrgetter('__self__')(C.count)\n"
    "    c.append(1)\n    return len(c)",
    "Formatter": "import string\ndef f(x):\n    g = string.Formatter().get_field('0.__globals__', (f,), {})[0]\n"
    + COUNTS,
    "overload": "from typing import overload, get_overloads\ndef f(x):\n    def g(): pass\n    n = len(get_overloads(g))\n"
    "    overload(g)\n    return n",
    "final": "from typing import final\ndef g(): pass\ndef f(x):\n    try:\n        return '{0.__final__}'.format(g)\n"
    "    except AttributeError:\n        final(g)\n        return 'first'",
    "addresses": "def f(x):\n    a = [[i] for i in range(100_000 * (x == 1))]\n    return id([1, 2]), id('ab' * x)",
    "a generator's frame": f"def f(x):\n    g = (0 for _ in ()).gi_frame.f_globals\n{COUNTS}",
    "a cache that format shows": "import re\ndef f(x):\n    n = '{0.__globals__[_cache]}'.format(re.compile)\n"
    "    re.compile(str(x))\n    return n",
    "what format did not find": "def f(x):\n    try:\n        '{0.__globals__.n}'.format(f)\n"
    f"    except AttributeError as e:\n        g = e.obj\n{COUNTS}",
    "a pattern of a class": "def f(x):\n    o = int.mro()[-1]\n    match f:\n        case o(__globals__=g):\n"
    f"            pass\n{COUNTS}",
    "a pattern called list": "C = [1]\ndef f(x):\n    match (lambda t: t):\n        case list:\n            pass\n"
    "    c = list(C)\n    c.append(x)\n    return len(c)",
    "main by another name": "__name__ = '__main__'\nif __name__ == '__main__':\n    C = []\n"
    "def f(x):\n    C.append(x)\n    return len(C)",
    "a function called float": "def float(x):\n    return []\nC = float(1)\n"
    "def f(x):\n    C.append(x)\n    return len(C)",
    "a counter called float": "from collections import Counter as float\nC = float('a')\n"
    "def f(x):\n    C[x] += 1\n    return len(C)",
    "a list of features": "import __future__ as m\ndef f(x):\n    m.all_feature_names.append(x)\n"
    "    return len(m.all_feature_names)",
    "code in a type hint": "from typing import get_type_hints\n"
    "def g(a: 'globals().update(n=globals().get(\"n\", 0) + 1)'): pass\n"
    "def f(x):\n    get_type_hints(g)\n    return n",
}
KEEPS_NOTHING = {
    "types": "import typing as t\nfrom typing import List, Literal\ndef f(x: List[int], y: t.Any = None) -> Literal[1]:\n    z: t.Optional[int] = None\n    return x if y is None else z",
    "plain": "def f(x):\n    return x + 1",
    "imports": "import math\nfrom typing import List\nfrom collections import Counter\ndef f(x: List[int]):\n    return math.gcd(*x), Counter(x)",
    "constants": "LIMIT = 10 ** 9 + 7\nINFINITY = float('inf')\nPAIR = (1, 'a')\ndef f(x):\n    return x % LIMIT",
    "a cache inside": "from functools import lru_cache\ndef f(n):\n    @lru_cache(None)\n    def g(k):\n        return k if k < 2 else g(k - 1) + g(k - 2)\n    return g(n)",
    "local state": "def f(x):\n    seen = []\n    def add(y):\n        nonlocal seen\n        seen = seen + [y]\n    add(x)\n    return seen",
    "an example at the end": "def f(x):\n    return x\nprint(f(1))\nif __name__ == '__main__':\n    f(2)",
}


@pytest.mark.parametrize("kind", KEEPS)
def test_a_program_that_may_keep_state_is_taken_for_one(kind):
    assert not keeps_no_state(KEEPS[kind])


@pytest.mark.parametrize("kind", KEEPS_NOTHING)
def test_common_programs_are_known_to_keep_nothing(kind):
    assert keeps_no_state(KEEPS_NOTHING[kind])


@pytest.mark.parametrize("kind", [kind for kind in KEEPS if kind not in ("not Python", "addresses")])
def test_each_call_finds_a_program_as_it_was_loaded(jail: SandboxPool, kind):
    (execution,) = jail.execute([Job(KEEPS[kind], ("f(1)", "f(1)", "f(1)"))])
    assert execution.outcomes[0] == execution.outcomes[1] == execution.outcomes[2]


@pytest.mark.parametrize("kind", [kind for kind in KEEPS if kind != "addresses"])  # which differ anyway
def test_calls_of_one_job_are_answered_as_those_of_many(jail: SandboxPool, kind):
    calls = ("f(0)", "f(1)", "f(2)", "f(0)")
    (together,) = jail.execute([Job(KEEPS[kind], calls)])
    assert list(together.outcomes) == [job.outcomes[0] for job in jail.execute([Job(KEEPS[kind], (c,)) for c in calls])]


def test_calls_together_share_one_process(jail: SandboxPool):
    (execution,) = jail.execute([Job(KEEPS["a counter"], ("f(1)", "f(1)", "f(1)"), together=True)])
    assert [outcome.value for outcome in execution.outcomes] == ["1", "2", "3"]


def test_what_a_call_used_up_is_not_missing_for_the_next(jail: SandboxPool):
    # Self-referring lists are not freed with the call, and would fill the process's memory.
    program = "def f(x):\n    junk = [0] * (4 * 10 ** 6)\n    junk.append(junk)\n    return x"
    calls = tuple(f"f({i})" for i in range(40))
    (execution,) = jail.execute([Job(program, calls)])
    assert [outcome.value for outcome in execution.outcomes] == [str(i) for i in range(40)]


def test_only_attributes_that_plain_values_have_may_be_read():
    assert keeps_no_state("def f(text):\n    return text.upper().split()")
    assert not keeps_no_state("def f(frame):\n    return frame.f_globals")
