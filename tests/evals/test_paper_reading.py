"""How a response becomes the paper's one test: the package against a second reference, which was written separately."""

import ast
import json
from pathlib import Path

import pytest
from paper_reading_reference import NOTHING, read

from codea1_jax.evals.paper import read_test

# Responses, each with what the authors' script read from it: see test_paper_protocol.py.
RECORDED = json.loads((Path(__file__).parents[1] / "fixtures" / "unleaked_paper_reading.json").read_text())


def _fenced(code: str, opening: str = "```python", closing: str = "```") -> str:
    return f"{opening}\n{code}\n{closing}"


_ONE = "def test_f():\n    assert f(1) == 2"
_TWO_LINES = "def test_f():\n    assert f(\n        1,\n    ) == 2"
_CLASS = (
    "class TestF:\n    def test_f(self):\n        assert f(1) == 2\n\n    def test_g(self):\n        assert f(2) == 3"
)
_UNITTEST = (
    "import unittest\n\nclass TestF(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(f(1), 2)\n\n"
    'if __name__ == "__main__":\n    unittest.main()'
)
_RAISES = "import pytest\n\ndef test_f():\n    with pytest.raises(ValueError):\n        f(-1)"
_HELPER = "def double(x):\n    return 2 * x"
_CHECKING_HELPER = "def check(x, y):\n    assert f(x) == y\n\ncheck(1, 2)"

RESPONSES = {
    # Nothing that could be a test.
    "empty": "",
    "blanks": " \n\t\n  ",
    "prose": "I cannot write a test for this.",
    "an empty block": "```python\n```",
    "a block of blanks": "```python\n   \n\n```",
    "a block with a comment": _fenced("# assert f(1) == 2"),
    "a program without an assert": _fenced("def f(x):\n    return x + 1\n\nprint(f(1))"),
    "a null byte": _fenced("assert f('\0') == 2"),
    # Where the text of the test comes from.
    "a test in a block": _fenced(_ONE),
    "a test without a fence": _ONE,
    "a test behind prose without a fence": f"Here is the test:\n\n{_ONE}\n\nIt checks the first case.",
    "a bare assert in a block": _fenced("assert f(1) == 2"),
    "a bare assert without a fence": "assert f(1) == 2",
    "a bare assert between single ticks": "Run `assert f(1) == 2` to see it.",
    "a block without a language": _fenced(_ONE, "```"),
    "a bare assert in a block without a language": _fenced("assert f(1) == 2", "```"),
    "a block of py": _fenced("assert f(1) == 2", "```py"),
    "a block of Python, capitalized": _fenced("assert f(1) == 2", "```Python"),
    "a block of python3": _fenced("assert f(1) == 2", "```python3"),
    "a block of pycon": _fenced(">>> assert f(1) == 2", "```pycon"),
    "a language behind a blank": _fenced("assert f(1) == 2", "``` python"),
    "a blank behind the language": _fenced("assert f(1) == 2", "```python  "),
    "a word behind the language": _fenced("assert f(1) == 2", "```python title"),
    "code on the line of the opening fence": "```python assert f(1) == 2\n```",
    "a block on one line": "```python assert f(1) == 2 ```",
    "a closing fence on the last line of code": "```python\nassert f(1) == 2```",
    "tildes around a bare assert": _fenced("assert f(1) == 2", "~~~python", "~~~"),
    "tildes around a test": _fenced(_ONE, "~~~python", "~~~"),
    "four ticks": _fenced("assert f(1) == 2", "````python", "````"),
    "a block that never closes": "```python\nassert f(1) == 2\n",
    "a test in a block that never closes": f"```python\n{_ONE}\n    assert f(2) == 3\n",
    "a block of javascript": _fenced("assert(f(1) == 2)", "```javascript"),
    "a block of bash, then one of python": "```bash\npytest -q\n```\n\n" + _fenced("assert f(1) == 2"),
    "two blocks": _fenced("x = 1") + "\n\nand\n\n" + _fenced("assert f(x) == 2"),
    "two blocks on one line each": "```python x = 1``` and ```python assert f(x) == 2```",
    "a block with a syntax error, then a good one": _fenced("def f(:") + "\n" + _fenced("assert f(1) == 2"),
    "a good block, then one with a syntax error": _fenced("assert f(1) == 2") + "\n" + _fenced("def f(:"),
    "two blocks that both have a test": _fenced(_ONE) + "\n\n" + _fenced(_ONE.replace("2", "3")),
    "an assert in a block, a test in the next": _fenced("assert f(0) == 1") + "\n" + _fenced(_ONE),
    "a program, then a test": _fenced("def f(x):\n    return x + 1") + "\n\nTest:\n\n" + _fenced(_ONE),
    "an indented block with a bare assert": "1. This:\n   ```python\n   assert f(1) == 2\n   ```",
    "an indented block with a test": "1. This:\n   ```python\n   def test_f():\n       assert f(1) == 2\n   ```",
    "blocks of two indents": "- ```python\n  x = 1\n  ```\n" + _fenced("assert f(x) == 2"),
    "a fence in a docstring": _fenced('def check():\n    """```f(1)```"""\n    assert f(1) == 2'),
    "a quoted block": "> ```python\n> assert f(1) == 2\n> ```",
    "a quoted test": "> ```python\n> def test_f():\n>     assert f(1) == 2\n> ```",
    # Thinking.
    "thinking, then a test": f"<think>\nLet me see.\n</think>\n\n{_fenced(_ONE)}",
    "a test in the thinking and another one behind": f"<think>\n{_ONE}\n</think>\n{_fenced(_ONE.replace('2', '3'))}",
    "a test in the thinking alone": f"<think>\n{_fenced(_ONE)}\n</think>\nThat is it.",
    "thinking that never opens": f"Let me see.\n</think>\n{_fenced('assert f(1) == 2')}",
    "thinking that never closes": f"<think>\nMaybe this:\n{_fenced(_ONE)}",
    "thinking that never closes, with a bare assert": f"<think>\nMaybe this:\n{_fenced('assert f(1) == 2')}",
    "thinking twice": f"<think>a</think>\n{_fenced(_ONE)}\n<think>b</think>\n{_fenced(_ONE.replace('2', '3'))}",
    "a test before the thinking": f"{_fenced(_ONE)}\n<think>b</think>\nDone.",
    "a test on the line on which thinking closes": f"<think>a</think>{_ONE}",
    "thinking that closes in capitals": f"<THINK>{_fenced('assert f(0) == 1')}</THINK>{_fenced('assert f(1) == 2')}",
    # Where the test's text begins.
    "prose that begins a line with def test": f"The line\ndef test is how a test begins.\n\n{_fenced(_ONE)}",
    "prose with def test inside a line": f"Write def test and an assert.\n\n{_fenced('assert f(1) == 2')}",
    "def test between single ticks": "`def test_f` checks this:\n" + _fenced("x = 1\nassert f(x) == 2"),
    "def test in a comment": _fenced("# def test_f():\nassert f(1) == 2"),
    "def test behind two blanks": _fenced("def  test_f():\n    assert f(1) == 2"),
    "def testing": _fenced("def testing(x):\n    return x\n\nassert f(testing(1)) == 2"),
    "def Test": _fenced("x = 1\ndef Test_f():\n    assert f(x) == 2"),
    "a function of another name": _fenced("x = 1\n\ndef check_f():\n    assert f(x) == 2\n\ncheck_f()"),
    "imports before a test": _fenced(f"import math\nfrom typing import List\n\n{_ONE}"),
    "imports before a bare assert": _fenced("import math\n\nassert f(1) == math.floor(2.5)"),
    "imports before a check": _fenced("import math\n\ndef check():\n    assert f(1) == math.floor(2.5)"),
    "a helper before a test": _fenced(f"{_HELPER}\n\n{_ONE.replace('2', 'double(1)')}"),
    "a helper before a bare assert": _fenced(f"{_HELPER}\n\nassert f(1) == double(1)"),
    "a helper that asserts before a bare assert": _fenced(f"{_CHECKING_HELPER}\nassert f(2) == 3"),
    "a helper called test_input before the test": _fenced(f"def test_input():\n    return 1\n\n{_ONE}"),
    "decorators": _fenced(f"@slow\n{_ONE}"),
    "a decorated check": _fenced("@slow\n@quiet(True)\ndef check():\n    assert f(1) == 2\n    assert f(2) == 3"),
    "parametrized": _fenced(
        "import pytest\n\n@pytest.mark.parametrize('x, y', [(1, 2), (2, 3)])\ndef test_f(x, y):\n    assert f(x) == y"
    ),
    "fixtures": _fenced(
        "@pytest.fixture\ndef value():\n    return 1\n\ndef test_f(value, tmp_path):\n    assert f(value) == 2"
    ),
    "a default value": _fenced("def test_f(x=1, *, y: int = 2) -> None:\n    assert f(x) == y"),
    "async": _fenced("async def test_f():\n    assert await f(1) == 2\n\nassert f(3) == 4"),
    "async behind a test without assert": "def test_a():\n    pass\n\nasync def test_f():\n    assert await f(1) == 2",
    # Where it ends.
    "three asserts in a test": _fenced(f"{_ONE}\n    assert f(2) == 3\n    assert f(3) == 4"),
    "three bare asserts": _fenced("assert f(1) == 2\nassert f(2) == 3\nassert f(3) == 4"),
    "two bare asserts on one line": _fenced("assert f(1) == 2; assert f(2) == 3"),
    "two asserts on one line of a test": _fenced(f"{_ONE}; assert f(2) == 3"),
    "a second, wrong test": _fenced(f"{_ONE}\n\ndef test_g():\n    assert f(1) == 99"),
    "a second, wrong check": _fenced("def check():\n    assert f(1) == 2\n\ndef wrong():\n    assert f(1) == 99"),
    "a first test without an assert": _fenced(f"def test_runs():\n    f(1)\n\n{_ONE}"),
    "a syntax error after the first assert of a test": _fenced(f"{_ONE}\n    assert f(2) == = 3"),
    "a syntax error after a bare assert": _fenced("assert f(1) == 2\nassert f(2) == = 3"),
    "a syntax error in the first assert": _fenced("def test_f():\n    assert f(1) == = 2\n    assert f(2) == 3"),
    "a test in a block, then prose": f"{_fenced(_ONE)}\n\nassert is a keyword.",
    "an assert with a message": _fenced("def test_f():\n    assert f(1) == 2, 'one plus one'"),
    "an assert in parentheses": _fenced("def test_f():\n    assert(f(1) == 2)\n    assert(f(2) == 3)"),
    "an assert of several lines in a test": _fenced(_TWO_LINES),
    "an assert of several lines with a backslash": _fenced("def test_f():\n    assert f(1) == \\\n        2"),
    "a list of several lines before the assert": _fenced(
        "def test_f():\n    x = [\n        1,\n    ]\n    assert f(x)"
    ),
    "a bare assert of several lines": _fenced("assert f(\n    1,\n) == 2\nassert f(2) == 3"),
    "an assert behind a semicolon": _fenced("def test_f():\n    x = 1; assert f(x) == 2\n    assert f(2) == 3"),
    "a test on one line": _fenced("def test_f(): assert f(1) == 2"),
    "a test on one line, then another test": _fenced(f"def test_f(): assert f(1) == 2\n\n{_ONE}"),
    "a check on one line": _fenced("def check(): assert f(1) == 2; assert f(2) == 3"),
    "a comment behind the assert": _fenced(f"{_ONE}  # one\n    # two\n    assert f(2) == 3"),
    "comments before the assert": _fenced(
        "def test_f():\n    # assert f(0) == 1\n# at the margin\n    assert f(1) == 2"
    ),
    "an assert in a string": _fenced("def test_f():\n    x = 'assert 1'\n    assert f(x) == 2"),
    "a docstring with an assert inside a line": _fenced(
        'def test_f():\n    """We assert one."""\n    assert f(1) == 2'
    ),
    "a docstring with an assert line": _fenced(
        'def test_f():\n    """Checks one:\n\n    assert that it is two.\n    """\n    assert f(1) == 2'
    ),
    "a check with an assert line in its docstring": _fenced(
        'def check():\n    """Checks one:\n\n    assert that it is two.\n    """\n    assert f(1) == 2'
    ),
    "a string over lines at the margin": _fenced('def check():\n    x = """a\nb\n  c"""\n    assert f(x) == 2'),
    "a name that begins with assert": _fenced("def test_f():\n    assert_equal(f(1), 2)\n    assert f(2) == 3"),
    "a variable called asserted": _fenced("def test_f():\n    asserted = 1\n    assert f(asserted) == 2"),
    "a test with only assert_equal": _fenced("def test_f():\n    assert_equal(f(1), 2)"),
    "a return before the assert": _fenced("def test_f():\n    return\n    assert f(1) == 2"),
    "a test whose block ends before its assert": "```python\ndef test_f():\n    x = 1\n```\n\n```python\nassert 1\n```",
    # Asserts that do not count.
    "a class": _fenced(_CLASS),
    "a class without a test in its name": _fenced(
        "class Checks:\n    def check(self):\n        assert f(1) == 2\n\nassert f(3) == 4"
    ),
    "a class, then a test": _fenced(f"class Value:\n    x = 1\n\n{_ONE}"),
    "unittest": _fenced(_UNITTEST),
    "unittest, then a bare assert": _fenced(_UNITTEST.replace("unittest.main()", "pass") + "\nassert f(1) == 2"),
    "raises": _fenced(_RAISES),
    "raises, then an assert": _fenced(f"{_RAISES}\n    assert f(1) == 2"),
    "raises, then an assert on the error": _fenced(
        "def check():\n    with pytest.raises(ValueError) as error:\n        f(-1)\n    assert 'bad' in str(error)"
    ),
    "a loop in a test": _fenced("def test_f():\n    for x in range(3):\n        assert f(x) == x + 1"),
    "a loop, then an assert, in a test": _fenced(
        "def test_f():\n    for x in range(3):\n        assert f(x) == x + 1\n    assert f(4) == 5"
    ),
    "a loop, then an assert, in a check": _fenced(
        "def check():\n    for x in range(3):\n        assert f(x) == x + 1\n    assert f(4) == 5"
    ),
    "a bare loop": _fenced("for x in range(3):\n    assert f(x) == x + 1"),
    "a bare loop, then a bare assert": _fenced("for x in range(3):\n    assert f(x) == x + 1\n\nassert f(4) == 5"),
    "an assert under if": _fenced("def test_f():\n    if True:\n        assert f(1) == 2"),
    "an assert under a bare if": _fenced('if __name__ == "__main__":\n    assert f(1) == 2'),
    "an assert under with": _fenced("with open('x') as file:\n    assert f(file) == 2"),
    "an assert under try": _fenced(
        "def check():\n    try:\n        assert f(1) == 2\n    except ValueError:\n        pass"
    ),
    "an assert under while": _fenced("while True:\n    assert f(1) == 2\n    break\nassert f(2) == 3"),
    "a nested function": _fenced("def check():\n    def inner():\n        assert f(1) == 2\n    inner()"),
    "a nested function, then an assert": _fenced(
        "def check():\n    def inner():\n        assert f(1) == 2\n    inner()\n    assert f(2) == 3"
    ),
    "a nested def test": _fenced("def outer():\n    def test_f():\n        assert f(1) == 2\n    test_f()"),
    "an assert of a lambda": _fenced("check = lambda x: f(x) == 2\nassert check(1)"),
    # How it is written.
    "tabs": _fenced("def test_f():\n\tx = 1\n\tassert f(x) == 2\n\tassert f(2) == 3"),
    "tabs and blanks": _fenced("def test_f():\n\tx = 1\n        assert f(x) == 2"),
    "a tab before def": _fenced("\tdef test_f():\n\t\tassert f(1) == 2"),
    "CRLF": _fenced(f"x = 1\n{_ONE}\n    assert f(2) == 3").replace("\n", "\r\n"),
    "CRLF and bare asserts": _fenced("x = 1\nassert f(x) == 2\nassert f(2) == 3").replace("\n", "\r\n"),
    "CRLF and an indented block": "  ```python\n  x = 1\n\n  assert f(x) == 2\n  ```".replace("\n", "\r\n"),
    "CR alone": _fenced(_ONE).replace("\n", "\r"),
    "a form feed": _fenced("x = 1\n\f\nassert f(x) == 2"),
    "a form feed before def": "\fdef test_f():\n    assert f(1) == 2",
    "a byte order mark": "\ufeff" + _ONE,
    "a byte order mark in a block": _fenced("\ufeffassert f(1) == 2"),
    "a line separator": _fenced("def test_f():\n    x = 'a\u2028assert b'\n    assert f(x) == 2"),
    "blanks that do not break": _fenced("def test_f():\n\u00a0\u00a0\u00a0\u00a0assert f(1) == 2"),
    "unicode": _fenced("def test_größe():\n    größe = '≤ 日本 🙂'\n    assert f(größe) == 'ß'"),
    "curly quotes": _fenced("def test_f():\n    assert f(“a”) == 2"),
    "an unknown escape": _fenced(r"assert f('\d') == 2"),
    "an f-string": _fenced("def test_f():\n    x = 1\n    assert f(f'{x!r:>3}') == '  1'"),
    "a walrus": _fenced("assert (x := f(1)) == 2, x"),
    "a future import": _fenced("from __future__ import annotations\n\nassert f(1) == 2"),
    "a star import": _fenced("from solution import *\n\nassert f(1) == 2"),
    "statements that only run in a function": _fenced("return 1\nawait x\nassert f(1) == 2"),
    "a doctest": _fenced(">>> f(1)\n2"),
    "an indented test": f"The test:\n\n    def test_f():\n        assert f(1) == 2\n\n{_fenced('assert 0')}",
    "a test whose body dedents": _fenced("    def test_f():\n  x = 1\n        assert f(x) == 2"),
    "an assert at the margin": _fenced("def test_f():\n    x = 1\nassert f(1) == 2"),
    "an assert at the margin of a list": "- def test_f():\n      assert f(1) == 2",
    "a numeral too long to read": _fenced("assert f(" + "9" * 5000 + ") == 2"),
    "brackets too deep to parse": _fenced("assert f(" + "(" * 300 + "1" + ")" * 300 + ") == 2"),
    # What the written rule does not mention, and the authors' script does.
    "a helper before a check": _fenced(f"{_HELPER}\n\ndef check():\n    assert f(1) == double(1)"),
    "another assert of several lines before that of the function": _fenced(
        "def test_f():\n    assert x == [\n        1,\n    ]\n    assert f(1) == 2"
    ),
    "the same, where the response ends": "def test_f():\n    assert x == [\n        1,\n    ]\n    assert f(1) == 2",
    "the same, with a line break at the end": "def test_f():\n    assert x == [\n        1,\n    ]\n    assert f(1)\n",
    "a loop that asserts before the assert of the function": _fenced(
        "def test_f():\n    for x in (1, 2):\n        assert x\n    assert f(x) == 3\n    assert f(1) == 2"
    ),
    "an assert of a function whose name begins alike": _fenced(
        "def test_f():\n    assert x == [\n        1,\n    ]\n    assert from_x(1) == 2"
    ),
    "prose that begins a line with assert, then a test": f"We\nassert that it is two:\n{_fenced(_ONE)}",
    "the same, with a test that asserts of something else": (
        "We\nassert that it is two:\n" + _fenced("def test_f():\n    x = f(1)\n    assert x == 2")
    ),
    "an assert of the function, then a test of it": f"We know that\nassert f(0) == 1\n{_fenced(_ONE)}",
    "an assert with a tab": _fenced("def test_f():\n    assert\tf(1) == 2"),
    "an assert with a tab, without a fence": "def test_f():\n    assert\tf(1) == 2\n    assert\tf(2) == 3",
    "an assert in parentheses, without a fence": "def test_f():\n    assert(f(1) == 2)\n    assert(f(2) == 3)",
    "a sum too long to print": _fenced("assert f(1) == " + " + ".join(["1"] * 1500)),
    "a test with a sum too long to print": _fenced("def test_f():\n    assert f(1) == " + "1 + " * 1500 + "1"),
    "a numeral too long to print": _fenced("assert f(0x" + "f" * 5000 + ") == 2"),
}


@pytest.mark.parametrize("response", RESPONSES.values(), ids=RESPONSES.keys())
def test_a_response_is_read_as_by_the_reference(response):
    assert _dumped(read_test(response, "f", 3)) == _dumped(_module(read(response, "f"), "test_f_3"))


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_the_reference_reads_as_the_authors_script(number):
    response, expected = RECORDED[number]
    assert _dumped(_module(read(response, "f"), f"test_f_{number}")) == _dumped(expected)


def test_the_responses_are_of_both_kinds():
    without = [response for response in RESPONSES.values() if read(response, "f") == NOTHING]
    assert len(without) >= 60 and len(RESPONSES) - len(without) >= 60


def _module(statements: str, name: str) -> str:
    """What runs: a bare assert and all before it in a function; a function as it is. The first function is renamed."""
    module = ast.parse(statements)
    if isinstance(module.body[-1], ast.Assert):
        wrapper = ast.parse("def wrapper(): ...").body[0]
        assert isinstance(wrapper, ast.FunctionDef)
        wrapper.body, module.body = module.body, [wrapper]
    next(each for each in module.body if isinstance(each, ast.FunctionDef)).name = name
    return ast.unparse(module)


def _dumped(source: str) -> str:
    return ast.dump(ast.parse(source))
