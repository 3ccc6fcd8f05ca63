import pytest

from sandbox import Job, SandboxPool, Status

CLOSURE = "def f(x):\n    def hidden_name():\n        return x\n    return [hidden_name] if x else hidden_name\n"
OBJECT = "class HiddenName:\n    pass\ndef f(x):\n    return HiddenName()\n"
LYING = """
class Lies(dict):
    __class__ = list
    def __eq__(self, other): return True
    def __len__(self): return 3
    def __iter__(self): return iter([1, 2])
    def __getitem__(self, key): return 7
def f(x):
    return Lies()
"""
PATCHED = """
import builtins
builtins.len = lambda x: 3
builtins.sorted = lambda *a, **k: [1, 2]
builtins.isinstance = lambda x, kind: True
builtins.range = lambda *a: (7,)
def f(x):
    return [5]
"""


def ends(jail: SandboxPool, program: str, *calls: str) -> list[str]:
    """The value of each call, or how it ended."""
    (execution,) = jail.execute([Job(program, calls)])
    return [outcome.value or outcome.status.value for outcome in execution.outcomes]


LOOKS = ["{} == 1", "abs({} - 3) < 9", "{} in [5]", "isinstance({}, list)", "len({}) == 3", "bool({})", "repr({})[:27]"]
LOOKS += ["str({})", "ascii({})", "list(map(str, [{}]))", "str([{}])", "len(repr({}))", "sorted({})", "{}[0]"]


@pytest.mark.parametrize("program", [CLOSURE, OBJECT, LYING])
@pytest.mark.parametrize("look", LOOKS)
def test_what_is_not_plain_data_is_never_looked_into(jail, program, look):
    calls = [look.format("f(0)"), look.format("f(1)")]
    assert set(ends(jail, program, *calls)) == {Status.NOT_PLAIN_DATA.value}


def test_what_a_program_patches_changes_nothing_around_its_call(jail):
    calls = ["len(f(1))", "sorted(f(1))", "isinstance(f(1), str)", "list(range(f(1)[0]))", "f(list(range(2)))"]
    true = ["1", "[5]", "0", "[0, 1, 2, 3, 4]", "[5]"]
    # Whoever breaks its own process may lose its answer, and gains none.
    assert all(end in (value, "raised") for end, value in zip(ends(jail, PATCHED, *calls), true, strict=True))


def test_arguments_are_computed_where_the_program_patches_nothing(jail):
    program = "import builtins\nbuiltins.max = lambda x: 3\nbuiltins.sum = lambda x: 3\ndef f(x):\n    return x\n"
    assert ends(jail, program, "f(max([4, 5]))", "f(sum([1, 1]))", "f(x=sum([]))") == ["5", "2", "0"]


def test_a_test_reads_the_order_of_a_dict_and_none_in_which_a_set_was_filled(jail):
    program = "def f(x):\n    return [{x: 1, -x: 2}, {8, 0} if x > 0 else {0, 8}, iter([{x: 0, -x: 0}])]\n"
    of_sets = ["str({}[1])", "list({}[1])", "list(zip({}[1], [1, 2]))", "[str(k) for k in {}[1]]"]
    first, second = ([look.format(f"f({x})") for look in of_sets] for x in (1, -1))
    assert ends(jail, program, *first) == ends(jail, program, *second)
    of_dicts = ["list({}[0])", "[k for d in {}[2] for k in d]", "[repr(k) for k in {}[0].keys()][0]", "str({}[0])"]
    first = ends(jail, program, *[look.format("f(1)") for look in of_dicts])
    assert first == ["[1, -1]", "[1, -1]", '"1"', '"{1: 1, -1: 2}"']
    assert ends(jail, program, "list(f(-1)[0])") == ["[-1, 1]"]


def test_plain_data_has_its_usual_text(jail):
    program = "def f(x):\n    return x\n"
    calls = ["str(f((1, 'a')))", "repr(f(1.5))", "ascii(f('é'))", "''.join(map(str, f([1, 2])))", "str.upper(f('a'))"]
    calls += [
        "isinstance(f('a'), str)",
        "isinstance(f(1), (str, int))",
        "isinstance(f(1), str)",
        "str(f(b'a'), 'ascii')",
    ]
    expected = ["\"(1, 'a')\"", '"1.5"', "\"'\\\\xe9'\"", '"12"', '"A"', "1", "1", "0", '"a"']
    assert ends(jail, program, *calls) == expected
