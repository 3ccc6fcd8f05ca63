"""A completion may use what its question's prompt or reference imports, as in the original, where all is one script."""

import ast
import math
from collections import Counter

import pyarrow.parquet as pq
import pytest

from data_pipeline import Problem
from data_pipeline.imports import constants_of, runnable

PROMPT = 'from typing import List\nimport math as m\n\n\ndef f(x: int) -> List[int]:\n    """Factors."""\n'


def problem(question: str = "", solution: str = "def f(x): return x") -> Problem:
    return Problem("q", question, solution, "f", ())


def run(program: str) -> dict:
    names: dict = {}
    exec(compile(program, "<program>", "exec"), names)
    return names


def test_a_completion_uses_the_prompts_imports_without_repeating_them():
    program = "def f(x: int) -> List[int]:\n    return [m.floor(x / 2)]"
    with pytest.raises(NameError):
        run(program)
    assert run(runnable(program, problem(PROMPT)))["f"](5) == [2]


def test_those_of_the_reference_count_as_well_and_the_programs_own_win():
    reference = "import json as j\nfrom collections import Counter\ndef f(x): return Counter(x)"
    names = run(runnable("import math as j\ndef f(x): return (Counter(x), j.pi)", problem("Count.", reference)))
    assert names["f"]("aab") == (Counter("aab"), math.pi)
    assert j_of(runnable("def f(x): return j.loads(x)", problem("Read.", reference))) == [1]


def j_of(program: str) -> object:
    return run(program)["f"]("[1]")


FUTURE = "from __future__ import annotations"


def test_future_imports_stay_first():
    program = f'"""About."""\n{FUTURE}\ndef f(x: Undefined) -> List[int]: return m.floor(x)'
    whole = runnable(program, problem(PROMPT))
    assert run(whole)["f"](2.5) == 2
    assert run(whole)["__doc__"] == "About."


@pytest.mark.parametrize(
    "head",
    [
        f"{FUTURE}; y = 'ü'",
        f"{FUTURE};",
        f"{FUTURE}; \\\n    y = 1",
        f'"""ü"""; {FUTURE}; y = 1',
        "from __future__ import (\n    annotations,\n    division); y = 1; z = 2",
        f"{FUTURE}\n{FUTURE}; from __future__ import division  # twice\n",
        f"# first\n{FUTURE}\n@staticmethod\ndef g(): pass",
    ],
)
def test_a_future_import_may_share_its_line_or_take_several(head):
    for question in (PROMPT, f"{FUTURE}\n{PROMPT}"):
        names = run(runnable(f"{head}\ndef f(x: Undefined): return m.floor(x)", problem(question)))
        assert names["f"](2.5) == 2
        assert names["f"].__annotations__ == {"x": "Undefined"}
        assert names.get("y", 1) in (1, "ü")


def test_a_future_import_after_another_statement_stays_an_error():
    for program in (f"{FUTURE}\nimport os\n{FUTURE}", f"x = 1\n{FUTURE}"):
        with pytest.raises(SyntaxError):
            run(runnable(program, problem(PROMPT)))


def test_a_prompts_own_future_imports_come_first_and_those_of_the_reference_are_left_out():
    program = "def f(x: Undefined) -> List[int]: return m.floor(x)"
    assert run(runnable(program, problem(f"{FUTURE}\n{PROMPT}")))["f"](2.5) == 2
    assert runnable(program, problem(FUTURE)) == f"{FUTURE}\n{program}"
    whole = runnable(program, problem(PROMPT, f"{FUTURE}\nimport json\ndef f(x): return x"))
    assert "import json" in whole and "__future__" not in whole


def test_only_imports_of_the_modules_own_level_are_taken():
    question = 'import os\n"""\nimport sys\n"""\ndef f(x):\n    import json\n    """from math import pi"""\n'
    assert runnable("def f(x): pass", problem(question)) == "import os\ndef f(x): pass"


def test_lines_of_prose_that_are_imports_count():
    question = "Write f. It may use:\nimport math\nfrom the left to the right\nfrom typing import List\nimport it.\n"
    program = runnable("def f(x: List) -> float: return math.sqrt(x)", problem(question))
    assert run(program)["f"](4) == 2


def test_line_endings_of_other_systems_are_kept_whole():
    program = "from __future__ import annotations\r\ndef f(x):\r\n    return m.floor(x)\r\n"
    assert run(runnable(program, problem(PROMPT)))["f"](2.5) == 2


@pytest.mark.parametrize("program", ["def f(x: return x", "", "x = '\0'", "(" * 5000])
def test_a_program_that_does_not_parse_is_unchanged(program):
    whole = runnable(program, problem(PROMPT))
    assert whole.endswith(program)
    if program:
        assert whole == program


def test_every_prompt_of_the_benchmarks_gives_the_imports_that_the_dataset_says_it_has(rows):
    carry = Counter()
    for row in pq.read_table(rows.evalplus).to_pylist():
        listed = [ast.unparse(statement) for statement in ast.parse(row["extra_info"]["imports"]).body]
        given = [statement for statement in listed if statement in row["problem"]]  # else the solution's
        whole = runnable("", problem(row["problem"], ""))
        assert whole.split("\n")[:-1] == given, row["extra_info"]["question_id"]
        run(whole)
        carry[row["data_source"]] += bool(given)
    assert carry["humanevalplus"] > 2 and carry["mbppplus"] > 1


def test_names_that_the_reference_imports_by_a_star_hide_no_builtin():
    reference = "from math import *\ndef f(x): return pow(x, 2)"
    assert run(runnable("def f(x): return pow(x, 2, 5) + floor(pi)", problem("?", reference)))["f"](3) == 4 + 3
    assert run(runnable(reference, problem("?", reference)))["f"](3) == 9.0


# --- what a reference defines next to its function ----------------------------------------------------------

REFERENCE = (
    "import math\nLIMIT: int = 3\nSCALE = LIMIT + 1\nhalf = lambda x: x // 2\nclass Box: size = SCALE\n"
    "def f(x): return half(x) * SCALE\nTABLE = [f(i) for i in range(3)]\ndef table(): return TABLE\n"
    "HALVES = table()\nprint('hello')\nif SCALE: UNSEEN = 1\n"
)


def test_a_program_may_use_what_the_reference_defines_but_nothing_that_needs_its_function():
    whole = runnable("def f(x): return half(x) + SCALE + Box.size", problem("?", REFERENCE), helpers=True)
    names = run(whole)
    assert names["f"](4) == 2 + 4 + 4
    assert not {"TABLE", "table", "HALVES", "UNSEEN"} & names.keys()
    assert "half" not in runnable("def f(x): return x", problem("?", REFERENCE))
    future = runnable(f"{FUTURE}\ndef f(x): return LIMIT", problem("?", REFERENCE), helpers=True)
    assert run(future)["f"](0) == 3
    assert runnable("def f(", problem("?", REFERENCE), helpers=True).endswith("def f(")


def test_a_references_constants_are_its_plain_assignments():
    found = {name: ast.unparse(value) for name, value in constants_of(problem("?", REFERENCE)).items()}
    assert found.keys() == {"LIMIT", "SCALE", "half", "TABLE", "HALVES"} and found["SCALE"] == "3 + 1"
    assert constants_of(problem("?", "def f(")) == {}
