import pytest

from sandbox import Job, SandboxPool

PROGRAM = "def f(a, b=2, *rest, c=(3,), **more):\n    return 0"

SAME = [
    [
        *("f(1)", "f(a=1)", "f(1, 2)", "f(b=2, a=1)", "f(1, c=(3,))", "f(1, c=[3])", "f(True)", "f(1.0)"),
        *("f(0 + 1)", "f(*[1])"),
    ],
    [
        *("f([1, 2])", "f((1, 2))", "f(a=[1, 2])", "f(range(1, 3))", "f(list(range(1, 3)))", "f({2, 1})"),
        *("f(frozenset([1, 2]))", "f(b'\x01\x02')", "f(x for x in [1, 2])", "f(reversed([2, 1]))"),
    ],
    ["f({'a': 1, 'b': [2]})", "f({'b': (2,), 'a': 1})"],
    ["f(1, 2, 3)", "f(1, 2, 3.0)", "f(*[1, 2, 3])"],
    ["f(1, d=4)", "f(d=4, a=1)"],
    ["f('a b'.split())", "f(['a', 'b'])"],
    ["sorted(f('b'))", "f('b')", "len(f('b'))"],
]


def test_calls_with_the_same_inputs_are_told_to_have_them_and_no_others(jail: SandboxPool):
    calls = tuple(call for group in SAME for call in group)
    (execution,) = jail.execute(
        [Job(PROGRAM.replace("return 0", "return [0, isinstance(a, dict) and a['a']]"), calls, is_reference=True)]
    )
    inputs = dict(zip(calls, (outcome.inputs for outcome in execution.outcomes), strict=True))
    assert all(inputs.values())
    found = [{inputs[call] for call in group} for group in SAME]
    assert [len(texts) for texts in found] == [1] * len(SAME)
    assert len(set().union(*found)) == len(SAME)


GOES_THROUGH = "def f(x):\n    return [[c for c in item] for item in x]"
LENGTHS = "def f(x):\n    return sum(len(item) for item in x)"
ADDS = "def f(x):\n    return sum(x.values()) if isinstance(x, dict) else -1"
KINDS = "def f(x):\n    return type(x).__name__"
LARGEST = "def f(x):\n    return max(x, key=x.get) if x else None"
CHECKS = "def f(x):\n    return isinstance(x, dict) and x['a'] > 0"
CHECKS_LATE = "def f(x):\n    if not isinstance(x, dict):\n        return False\n    return x['a'] > 0 and x['b'] > 0"
CHANGES = "def f(x, seen=[]):\n    seen.append(1)\n    x = list(x)\n    x.sort()\n    return x"
SLOW = "def f(x):\n    while isinstance(x, str): pass\n    return len(x)"
SWAPS = "def f(x, k, sep=','):\n    return sep.join(x) * k"


@pytest.mark.parametrize(
    ("program", "groups"),
    [
        (GOES_THROUGH, [["f('ab')", "f(['a', 'b'])", "f(x={'a': 1, 'b': 1})", "f({'a': 3, 'b': 2}.keys())"]]),
        (GOES_THROUGH, [["f({'a': 3, 'b': 2})", "f({'a': None, 'b': [2]})", "f(dict(a=2, b=3))"]]),
        (GOES_THROUGH, [["f(['ab', 'c'])", "f([['a', 'b'], 'c'])", "f(('ab', ['c']))"], ["f(['a', 'bc'])"]]),
        (GOES_THROUGH, [["f(['ab', 'c'])", "f([{'a': 1, 'b': 2}, 'c'])", "f([dict(a=2, b=1), ('c',)])"]]),
        (LENGTHS, [["f(['ab'])", "f([['a', 'b']])"], ["f([[1, 2]])"], ["f([])", "f({})", "f('')", "f(())"]]),
        (ADDS, [["f({'a': 1, 'b': 2})", "f({'c': 1, 'd': 2})"], ["f({'a': 2, 'b': 1})"], ["f({'a': 3, 'b': 0})"]]),
        (KINDS, [["f('ab')"], ["f({'a': 1, 'b': 1})", "f({'c': 1, 'd': 1})"], ["f({'c': 2})"]]),
        (LARGEST, [["f({'a': 1, 'b': 2})"], ["f({'a': 1, 'b': 5})"], ["f({'a': 2, 'b': 1})"], ["f({})", "f('')"]]),
        (CHECKS, [["f({'a': -1})"], ["f({'a': -2})", "f(dict(a=-2))"], ["f('a')", "f(['a'])"]]),
        (CHECKS_LATE, [["f({'a': -1, 'b': 1})"], ["f({'a': 1, 'b': -1})"], ["f({'a': 1, 'b': -2})"]]),
        (CHANGES, [["f('ba')", "f(['b', 'a'])"], ["f('ab')"]]),
        (SLOW, [["f(['a', 'b'])"], ["f({'a': 1})"]]),
        (SWAPS, [["f('ab', 2)", "f(['a', 'b'], 2)", "f({'a': 5, 'b': 6}, k=2)", "f('ab', 2, ',')"], ["f('ab', 3)"]]),
    ],
)
def test_what_a_function_does_not_look_at_is_no_part_of_its_inputs(jail: SandboxPool, program, groups):
    calls = tuple(call for group in groups for call in group)
    (execution,) = jail.execute([Job(program, calls, is_reference=True)])
    inputs = dict(zip(calls, (outcome.inputs for outcome in execution.outcomes), strict=True))
    assert all(outcome.value is not None and outcome.inputs for outcome in execution.outcomes)
    found = [{inputs[call] for call in group} for group in groups]
    assert [len(texts) for texts in found] == [1] * len(groups)
    assert len(set().union(*found)) == len(groups)


@pytest.mark.parametrize("program", ["f = len", "import functools\nf = functools.partial(pow, 2)", "f = max"])
def test_functions_without_parameters_to_read_have_inputs_too(jail: SandboxPool, program):
    (execution,) = jail.execute([Job(program, ("f([1, 2])", "f((1, 2))", "f([1, 3])"), is_reference=True)])
    first, second, third = (outcome.inputs for outcome in execution.outcomes)
    assert first == second != third or not execution.outcomes[0].value


def test_only_references_tell_their_inputs(jail: SandboxPool):
    (execution,) = jail.execute([Job(PROGRAM, ("f(1)",))])
    assert execution.outcomes[0].inputs == ""
