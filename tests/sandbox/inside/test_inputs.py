import pytest

from sandbox import Job, SandboxPool

PROGRAM = "def f(a, b=2, *rest, c=(3,), **more):\n    return 0"

SAME = [
    [
        "f(1)",
        "f(a=1)",
        "f(1, 2)",
        "f(b=2, a=1)",
        "f(1, c=(3,))",
        "f(1, c=[3])",
        "f(True)",
        "f(1.0)",
        "f(0 + 1)",
        "f(*[1])",
    ],
    [
        "f([1, 2])",
        "f((1, 2))",
        "f(a=[1, 2])",
        "f(range(1, 3))",
        "f(list(range(1, 3)))",
        "f({2, 1})",
        "f(frozenset([1, 2]))",
        "f(b'\x01\x02')",
        "f(x for x in [1, 2])",
        "f(reversed([2, 1]))",
    ],
    ["f({'a': 1, 'b': [2]})", "f({'b': (2,), 'a': 1})"],
    ["f(1, 2, 3)", "f(1, 2, 3.0)", "f(*[1, 2, 3])"],
    ["f(1, d=4)", "f(d=4, a=1)"],
    ["f('a b'.split())", "f(['a', 'b'])"],
    ["sorted(f('b'))", "f('b')", "len(f('b'))"],
]


def test_calls_with_the_same_inputs_are_told_to_have_them_and_no_others(jail: SandboxPool):
    calls = tuple(call for group in SAME for call in group)
    (execution,) = jail.execute([Job(PROGRAM.replace("return 0", "return [0]"), calls, is_reference=True)])
    inputs = dict(zip(calls, (outcome.inputs for outcome in execution.outcomes), strict=True))
    assert all(inputs.values())
    found = [{inputs[call] for call in group} for group in SAME]
    assert [len(texts) for texts in found] == [1] * len(SAME)
    assert len(set().union(*found)) == len(SAME)


@pytest.mark.parametrize("program", ["f = len", "import functools\nf = functools.partial(pow, 2)", "f = max"])
def test_functions_without_parameters_to_read_have_inputs_too(jail: SandboxPool, program):
    (execution,) = jail.execute([Job(program, ("f([1, 2])", "f((1, 2))", "f([1, 3])"), is_reference=True)])
    first, second, third = (outcome.inputs for outcome in execution.outcomes)
    assert first == second != third or not execution.outcomes[0].value


def test_only_references_tell_their_inputs(jail: SandboxPool):
    (execution,) = jail.execute([Job(PROGRAM, ("f(1)",))])
    assert execution.outcomes[0].inputs == ""
