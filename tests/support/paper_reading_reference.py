"""How the paper's test-generation benchmark reads a response into one test: a second reference.

It was written from the rule alone, without sight of the package's own reading or of the authors' script:

"Only what follows `</think>` counts. If a line begins (after blanks) with `def test`, the text from there to the first
assert line, inclusive; else the contents of all ```python blocks, joined. Then, after dedenting and parsing: the
statements up to the first function that has an assert among its own statements, cut behind that assert, or up to the
first bare assert, all wrapped in one test function. Nothing of the kind, or a syntax error: `assert 1 == 0`."

Where the rule is silent or inexact, it was then adapted to what the authors' script does (Aoshining/UnLeakedTestBench,
commit 6132139). Each such place is marked "adapted".
"""

import ast
import re
import textwrap
import warnings

NOTHING = "assert 1 == 0"


def read(response: str, entry_point: str) -> str:
    """The test's statements as `ast.unparse` prints them, not yet wrapped; NOTHING where the response has no test."""
    answer = response.split("</think>")[:2][-1]  # adapted: up to a second `</think>`, not from the last
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            statements = ast.parse(textwrap.dedent(_code(answer, entry_point))).body
        return ast.unparse(ast.Module(_first_test(statements), []))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return NOTHING  # adapted: also where the test cannot be printed


def _code(answer: str, entry_point: str) -> str:
    lines = answer.split("\n")

    def beginning(words: str) -> list[int]:
        return [number for number, line in enumerate(lines) if line.strip().startswith(words)]

    if not (tests := beginning("def test")):
        return "\n".join(re.findall(r"```python(.*?)```", answer, re.DOTALL))
    # Adapted: the first assert line of the whole answer, even before the test; one of the function under test goes
    # before any other, unless the answer ends with it. `assert(` does not begin an assert line.
    own = [number for number in beginning(f"assert {entry_point}")[:1] if number < len(lines) - 1]
    end = (own or beginning("assert ") or [len(lines)])[0]
    return "\n".join(lines[tests[0] : end + 1])


def _first_test(statements: list[ast.stmt]) -> list[ast.stmt]:
    for index, statement in enumerate(statements):
        if isinstance(statement, ast.FunctionDef):  # adapted: an async function is a statement like any other
            asserts = [place for place, inner in enumerate(statement.body) if isinstance(inner, ast.Assert)]
            if asserts:
                del statement.body[asserts[0] + 1 :]
                return statements[: index + 1]
        elif isinstance(statement, ast.Assert):
            return statements[: index + 1]
    return ast.parse(NOTHING).body
