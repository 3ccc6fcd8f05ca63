"""What a call gives depends neither on the worker, nor on the pool, nor on the run that it is made in."""

import random
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from fractions import Fraction

import pytest
from test_hostile_programs import PROGRAMS as HOSTILE

from sandbox import Job, SandboxPool, encode
from sandbox.grammar import RETURNED, bounded
from sandbox.inside import expressions
from sandbox.inside.observation import in_order
from sandbox.language import read_call

# Programs that read an order: of the argument, of what they make of it, of their own functions and objects.
PROGRAMS = [
    "def f(x):\n    return [repr(item) for item in x]",
    "def f(x):\n    return [repr(item) for item in {*x, 'z', 7, (None, 1)}]",
    "class C:\n    pass\ndef f(x):\n    return [kind.__name__ for kind in {len, sum, max, min, int, C, f}]",
    "def f(x):\n    return [repr(item) for item in sorted({*x, ..., None}, key=lambda y: id(type(y)))]",
]
ITEMS = ["None", "True", "1", "8", "16.0", "-1", "-2", "'a'", "'b'", "''", "b'a'", "1.5", "2**70", "(1,None)"]
ITEMS += ["(2,'a')", "frozenset({None,8})", "range(3)", "complex(1, 2)", "float('inf')"]
MAKERS = ["{{{}}}", "set([{}])", "frozenset([{}])", "{{x for x in [{}]}}", "list({{{}}})", "{{1}}.union([{}])"]
MAKERS += ["[*{{{}}}]", "[x for x in {{{}}} | {{None, 3}}]", "{{x: 1 for x in {{{}}}}}", "list(map(repr, {{{}}}))"]
MAKERS += ["tuple({{{}}} ^ {{None}})"]


def drawn(rng: random.Random) -> str:
    return f"f({rng.choice(MAKERS).format(', '.join(rng.sample(ITEMS, rng.randint(2, 9))))})"


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_worker_of_every_pool_gives_one_order(jail: SandboxPool, program):
    rng = random.Random(program)
    calls = tuple(drawn(rng) for _ in range(40))
    jobs = [
        Job(program, calls),
        Job(program + "\n# loaded otherwise", calls),
        *[Job(program, calls[i::2]) for i in (0, 1)],
    ]
    with SandboxPool(workers=2, backend="nsjail", limits=jail.limits) as other:
        found = [[execution.outcomes for execution in pool.execute(jobs * 2)] for pool in (jail, other)]
    for first, _again, even, odd, *_rest in found:
        assert all(outcome.value for outcome in first)
        assert first[0::2] == even
        assert first[1::2] == odd
    assert len({outcomes for pool in found for outcomes in pool[0::4]}) == 1
    assert len({outcomes for pool in found for outcomes in pool[1::4]}) == 1


def test_what_a_program_wrote_changes_no_order_for_the_next(jail: SandboxPool):
    byte_by_byte, _ = HOSTILE["lets its answers grow by single bytes"]
    with SandboxPool(workers=1, backend="nsjail", limits=jail.limits) as pool:
        first, _, second = pool.execute([Job(each, ("f(1)",)) for each in (PROGRAMS[2], byte_by_byte, PROGRAMS[2])])
    assert first.outcomes == second.outcomes


Pair = namedtuple("Pair", "x y")
EQUALS = [
    [{"a": 1, "b": 2}, Counter(b=2, a=1), OrderedDict(b=2, a=1), defaultdict(int, b=2, a=1), {"b": 2.0, "a": True}],
    [{8, 0, 3}, frozenset((0, 3, 8)), dict.fromkeys((3, 8, 0)).keys(), {0.0, 8.0, 3}, {Fraction(8), Decimal(3), False}],
    [{(1, 2), (3, 4)}, {3: 4, 1: 2}.items(), {Pair(3, 4), (1.0, 2)}],
    [{1: [2], 0: [3]}.items(), {0: [3], 1: [2]}.items()],
    [(0.125, 2), Pair(Decimal("0.125"), 2.0), (Fraction(1, 8), complex(2, 0))],
    [
        [{"b": 1, "a": {8, 0}}],
        [OrderedDict(a=frozenset((0, 8)), b=True)],
        [Counter(b=1, a=dict.fromkeys((8, 0)).keys())],
    ],
    [deque([{8, 0}, 0.125]), deque([{0: 1, 8: 1}.keys(), Decimal("0.125")])],
    [b"ab", bytearray(b"ab")],
]
VIEWS = ["list({})", "tuple({})", "sorted({})", "set({})", "frozenset({})", "dict({})", "len({})", "max({})"]
VIEWS += ["min({})", "sum({})", "abs({})", "{}", "round({},2)", "{}[0]", "{}[-1]", "{}['a']", "list(set({}))"]
VIEWS += ["list({}[0])", "sum({}[0])", "round({}[0],2)", "list(dict({}))", "tuple(frozenset(list({})))"]
VIEWS += ["list({}[0]['a'])", "round(sum({}),1)"]


def seen(view: str, value: object, turn: int = 0) -> str:
    """What a view shows of a value, whose dicts and sets are rotated, or the kind of its failure."""
    text = read_call(view.format("f(1)")).view or RETURNED
    try:
        return encode(eval(bounded(text), expressions.names(True, turn) | {RETURNED: in_order(value, turn)}))
    except (TypeError, ValueError, LookupError) as error:
        return type(error).__name__


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("equals", EQUALS, ids=str)
def test_values_that_are_equal_look_equal_where_no_order_is_seen(view, equals):
    assert len({encode(value) for value in equals}) == 1
    looks = {seen(view, value) for value in equals}
    for value in equals:
        assert looks == {seen(view, value)} or seen(view, value) != seen(view, value, turn=1)


ORDERED = ["list({})", "tuple({})[1]", "[k for k in {}]", "list({})[-1]", "str({})", "sorted({}, key=len)"]
UNORDERED = ["sorted({})", "len({})", "max({})", "set({})", "sum(x == 'a' for x in {})", "'b' in {}", "len(set({}))"]
VALUES = ["{'b': 1, 'a': 2, 'c': 2}", "{'a', 'b', 'c'}", "{'c': 1, 'b': 2, 'a': 3}.keys()"]
HOLDERS = ["[{}]", "({},)", "deque([{}])", "namedtuple('P', 'x')({})", "{{0: {}}}", "{{1: {}}}.values()"]


@pytest.mark.parametrize("value", VALUES)
def test_a_reference_gives_no_answer_that_depends_on_an_order(jail: SandboxPool, value):
    program = f"def f(x):\n    return {value}"
    calls = [[view.format("f(1)") for view in views] for views in (ORDERED, UNORDERED)]
    jobs = [Job(program, tuple(each), is_reference=is_reference) for each in calls for is_reference in (True, False)]
    ordered, ordered_of_program, unordered, _ = jail.execute(jobs)
    assert {outcome.detail for outcome in ordered.outcomes} == {"something that depends on the order of a dict or set"}
    assert all(outcome.value for outcome in (*ordered_of_program.outcomes, *unordered.outcomes))


@pytest.mark.parametrize("holder", HOLDERS)
def test_nor_does_one_that_depends_on_the_order_within_another_value(jail: SandboxPool, holder):
    for value in (*VALUES, "{1: 'b', 0: 'a', 2: 'c'}.values()"):
        program = f"from collections import deque, namedtuple\ndef f(x):\n    return {holder.format(value)}"
        held = "list(f(1))[0]" if "values" in holder else "f(1)[0]"
        (found,) = jail.execute([Job(program, (f"list({held})", f"sorted({held})"), is_reference=True)])
        assert [outcome.value is None for outcome in found.outcomes] == [True, False]
