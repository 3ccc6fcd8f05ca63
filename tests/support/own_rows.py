"""Rows in the forms of the datasets, which nobody needs to download: tests/fixtures/rows has what varies in them."""

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import yaml

Row = dict[str, Any]
FIXTURES = Path(__file__).parents[1] / "fixtures" / "rows"


@dataclass(frozen=True)
class RowFiles:
    """A file of each dataset's form.

    broken: ids of evalplus's form whose checks their references fail.
    """

    kodcode: Path
    evalplus: Path
    unleaked: Path
    broken: frozenset[str]


def write_rows(folder: Path) -> RowFiles:
    """The rows of the fixtures, as files of the kinds in which the datasets come."""
    paths = (folder / "kodcode.json", folder / "evalplus.parquet", folder / "unleaked.json")
    files = RowFiles(*paths, broken=frozenset({"HumanEval/1004"}))
    files.kodcode.write_text(json.dumps(kodcode()))
    files.unleaked.write_text(json.dumps(unleaked()))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(evalplus()), files.evalplus)
    return files


def kodcode() -> list[Row]:
    return [_kodcode(number, row) for number, row in enumerate(fixture_rows("kodcode"))]


def evalplus() -> list[Row]:
    return [_evalplus(row) for row in fixture_rows("evalplus")]


def unleaked() -> list[Row]:
    rows = []
    for row in fixture_rows("unleaked"):
        lines = "\r\n" if row.pop("crlf", False) else "\n"
        rows.append(row | {"code": row["code"].replace("\n", lines)})
    return rows


def fixture_rows(name: str) -> Any:
    return yaml.safe_load((FIXTURES / f"{name}.yaml").read_text())


def _kodcode(number: int, row: Row) -> Row:
    declared = {
        node.name: f"def {node.name}({ast.unparse(node.args)}):"
        for node in ast.parse(row["solution"]).body
        if isinstance(node, ast.FunctionDef)
    }
    infos = [
        {
            "function_name": name,
            "parameter_list": declared[name].removeprefix(f"def {name}").removesuffix(":"),
            "function_declaration": declared[name],
            "docstring": "",
        }
        for name in row["test_info"] or ()
    ]
    passes = [1, 0, 1] if row["gpt_difficulty"] == "hard" else [1, 1, 1]
    return row | {
        "style": "instruct",
        "subset": "Own",
        "test_info": infos or None,
        "gpt_pass_sequence": passes,
        "gpt_pass_trial_num": len(passes),
        "gpt_pass_percentage": sum(passes) / len(passes),
        "metadata": {"prompt_id": f"{number:08}", "row_id": number, "seed_ids": [0], "mode": "prefill"},
    }


# --- checks in the form of evalplus ------------------------------------------------------------------

_ARE_FLOATS = """\
def is_floats(value) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype in (np.float32, np.float64)
    return all(isinstance(each, float) for each in (value if isinstance(value, (list, tuple)) else [value]))

"""
_USUAL = """\
def assertion(out, exp, atol):
    equal = out == exp
    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if equal or atol == 0:
        assert equal, f"{out} instead of {exp}"
    else:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
"""
# As the checks of three real questions, which forget to assert.
_WHETHER = """\
def assertion(out, exp, atol):
    equal = exp == (out if isinstance(out, bool) else out is not None)
"""
_POLYNOMIAL = """\
def value(c, x):
    return sum(each * x**i for i, each in enumerate(c))
"""
_COMPARISONS = {
    "usual": _ARE_FLOATS + _USUAL,
    "sets": _ARE_FLOATS + _USUAL.replace("    equal =", "    out, exp = set(out), set(exp)\n    equal ="),
    "whether": _WHETHER,
    "polynomial": _POLYNOMIAL,
}
_IMPORTS = "import numpy as np\nfrom math import inf\n\n"
_WITH_RESULTS = """\
def check({parameter}):
    inputs = {inputs}
    results = {results}
    for i, (inp, exp) in enumerate(zip(inputs, results)):
        {compare}
"""
_WITH_REFERENCE = """\
{reference}


def check({parameter}):
    inputs = {inputs}
    for i, inp in enumerate(inputs):
        assertion({calls}(*inp), ref_func(*inp), {atol})
"""
_COMPARE = "assertion({calls}(*inp), exp, {atol})"
_COMPARE_BROKEN = "assert value(*{calls}(*inp), inp) <= 1e-4"  # as the check of HumanEval/32: it unpacks the answer

_SYSTEM = {"role": "system", "content": "You complete code."}
_ASKED = "Complete the function of the Question in a block of Python.\n\nQuestion:\n"


def _evalplus(row: Row) -> Row:
    continues = row["id"].startswith("HumanEval/")
    code = "\n\n" + row["code"] if continues else f"{row.get('imports', '')}\n{row['code']}".lstrip(" ")
    defined = ast.parse(row["problem"] + code if continues else code).body
    functions = {node.name: node for node in defined if isinstance(node, ast.FunctionDef)}
    name = row.get("function", next(iter(functions)))
    calls = row.get("calls", name)
    declaration = f"def {calls}({ast.unparse(functions[calls].args)})"
    shown = f"{row['imports']}\n\n" if row.get("shows_imports", "imports" in row) else ""
    problem = row.get("problem") or f'{shown}{declaration}:\n"""\n{row.get("statement")}\n{row["example"]}\n"""'
    return {
        "prompt": [_SYSTEM, {"role": "user", "content": _ASKED + problem}],
        "description": row.get("statement", problem),
        "GT_code": code,
        "problem": problem,
        "test": _check(row, "candidate" if continues else name, "candidate" if continues else calls),
        "data_source": "humanevalplus" if continues else "mbppplus",
        "extra_info": {
            "function_declaration": declaration,
            "function_name": name,
            "imports": row.get("imports", ""),
            "question_id": row["id"],
        },
    }


def _check(row: Row, parameter: str, calls: str) -> str:
    """The code of a check; where `parameter` and what it `calls` differ, the program's own function is meant."""
    comparison = row.get("comparison", "usual")
    given = {"atol": 0, **row, "parameter": parameter, "calls": calls}
    compare = (_COMPARE_BROKEN if comparison == "polynomial" else _COMPARE).format(**given)
    check = (_WITH_REFERENCE if "reference" in row else _WITH_RESULTS).format(compare=compare, **given)
    return _IMPORTS + _COMPARISONS[comparison] + "\n\n" + check
