"""Reads HumanEval+ and MBPP+ as evalplus releases them on GitHub: inputs as JSON, and no expected values.

The reference gives the expected values. They are compared with a candidate's as in evalplus v0.3.1
(`evalplus/eval/__init__.py` and `_special_oracle.py`), including its special cases. JSON has no tuples, sets and
complex numbers; they are restored from the types in the problem's own example asserts.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from data_pipeline.dataset import Format
from data_pipeline.problem import Problem
from data_pipeline.rows import BadRow, Row, identifier, text
from data_pipeline.source_code import entry_function, parse, with_declaration

Kinds = dict[tuple[int, int], set[type]]  # of the values at (argument, depth within it)

_CHECK = """\
import copy
import math
import numpy as np
from math import inf, nan

def is_floats(value):
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(item, float) for item in value)
    return isinstance(value, float)

def close(out, expected, tolerance):
    alike = type(out) == type(expected) and (not isinstance(expected, (list, tuple)) or len(out) == len(expected))
    return alike and np.allclose(out, expected, rtol=1e-07, atol=tolerance)

def matches(out, expected, arguments, atol):
    {comparison}
    if atol == 0 and is_floats(expected):
        atol = 1e-6
    return bool(exact or (atol and close(out, expected, atol)))

def check(candidate):
    names = {{}}
    exec({reference!r}, names)
    for arguments in {inputs!r}:
        expected = names[{entry_point!r}](*copy.deepcopy(arguments))
        out = candidate(*copy.deepcopy(arguments))
        assert matches(out, expected, arguments, {atol!r}), f"{{out!r}} is not {{expected!r}}"
"""
_USUAL = "exact = out == expected"
_AS_SETS = "exact = set(out) == set(expected)"
_WHETHER_FOUND = "exact = (out if isinstance(out, bool) else out is not None) == (expected not in (None, False))"
_PYRAMID = "round(arguments[0] ** 2 + 2 * arguments[0] * math.hypot(arguments[0] / 2, arguments[1]))"
_COMPARISONS = {
    **dict.fromkeys(("similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly"), _AS_SETS),
    **dict.fromkeys(("larg_nnum", "intersection_array", "find_dissimilar", "Diff"), _AS_SETS),
    **dict.fromkeys(("check_str", "text_match_three", "text_starta_endb"), _WHETHER_FOUND),
    "are_equivalent": "exact = True",
    "sum_div": "exact = out == expected or out == 0",
    "digit_distance_nums": "exact = out == expected or out == sum(map(int, str(abs(arguments[0] - arguments[1]))))",
    "surface_Area": f"exact = out == expected or abs(out - {_PYRAMID}) <= atol",
    "find_zero": "return abs(sum(c * math.pow(out, i) for i, c in enumerate(arguments[0]))) <= atol",
}


def _id(row: Row) -> str:
    return text(row, "task_id").replace("Mbpp/", "MBPP/")


def _problem(row: Row) -> Problem:
    prompt, entry_point = text(row, "prompt"), identifier(row, "entry_point")
    solution = prompt + text(row, "canonical_solution")
    function = entry_function(solution, entry_point)
    is_humaneval = _id(row).startswith("HumanEval/")
    return Problem(
        id=_id(row),
        question=prompt if is_humaneval else with_declaration(prompt, function),
        solution=solution,
        entry_point=entry_point,
        golden_tests=(),
        check=_CHECK.format(
            comparison=_COMPARISONS.get(entry_point, _USUAL),
            reference=solution,
            entry_point=entry_point,
            inputs=_inputs(row, entry_point),
            atol=_tolerance(row),
        ),
        source="humanevalplus" if is_humaneval else "mbppplus",
    )


def _tolerance(row: Row) -> float:
    atol = row.get("atol")
    if not isinstance(atol, int | float) or not 0 <= atol <= sys.float_info.max:
        raise BadRow("atol is not a number of 0 or more")
    return float(atol)


def _inputs(row: Row, entry_point: str) -> list[list[Any]]:
    """The arguments of every call, with the types in the example asserts."""
    kinds = example_kinds(text(row, "assertion") if row.get("assertion") else "", entry_point)
    found = []
    for name in ("base_input", "plus_input"):
        calls = row.get(name) or []
        if not isinstance(calls, list) or not all(isinstance(call, list) for call in calls):
            raise BadRow(f"{name} is not a list of lists of arguments")
        try:
            found += [restored(call, kinds) for call in calls]
        except TypeError as error:  # a list where the examples show sets
            raise BadRow(f"{name}: {error}") from None
    if not found:
        raise BadRow("no inputs")
    return found


def example_kinds(asserts: str, entry_point: str) -> Kinds:
    """The types of the literal arguments in example asserts that call the function. Raises BadRow."""
    kinds: Kinds = defaultdict(set)
    for node in ast.walk(parse(asserts, "the assertion")):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == entry_point:
            for position, argument in enumerate(node.args):
                try:
                    _note(ast.literal_eval(argument), position, 0, kinds)
                except (ValueError, TypeError):
                    continue  # an expression, which shows no type
    return kinds


def _note(value: Any, position: int, depth: int, kinds: Kinds) -> None:
    kinds[position, depth].add(type(value))
    if isinstance(value, list | tuple | set | dict):
        for item in value.values() if isinstance(value, dict) else value:
            _note(item, position, depth + 1, kinds)


def restored(arguments: Sequence[Any], kinds: Kinds) -> list[Any]:
    """Arguments read from JSON, converted to the types that `kinds` has at their positions."""
    return [_restored(argument, position, 0, kinds) for position, argument in enumerate(arguments)]


def _restored(value: Any, position: int, depth: int, kinds: Kinds) -> Any:
    if isinstance(value, dict):
        return {key: _restored(item, position, depth + 1, kinds) for key, item in value.items()}
    if not isinstance(value, list | str):
        return value
    shown = [kinds[p, d] for p, d in sorted(kinds) if p == position and d <= depth]
    seen = shown[-1] if shown else set()
    if isinstance(value, list):
        items = [_restored(item, position, depth + 1, kinds) for item in value]
        if set in seen:
            return set(items) or {}  # examples of sets have an empty dict where they mean none
        nested = (
            len(shown) > 2 and tuple in shown[-3] & shown[-2] and not seen & {list, tuple}
        )  # may continue like that
        return tuple(items) if nested or (tuple in seen and list not in seen) else items
    return _number(value) if seen and seen <= {int, float, complex} else value


def _number(value: str) -> float | complex | str:
    """A number that is stored as text because it may be complex."""
    try:
        return complex(value) if "j" in value else float(value)
    except ValueError:
        return value


FORMAT = Format(
    "evalplus as released",
    frozenset({"task_id", "prompt", "canonical_solution", "entry_point", "base_input", "plus_input", "atol"}),
    _id,
    _problem,
)
