"""Golden tests taken from pytest code: each must hold for every function that passes the pytest code."""

from pathlib import Path
from textwrap import indent

import pytest
import yaml

from data_pipeline.golden import golden_tests
from data_pipeline.rows import BadRow

CASES = yaml.safe_load(Path(__file__).with_name("golden.yaml").read_text())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_golden_tests_are_those_that_hold_for_whatever_passes(case):
    assert golden_tests(case["code"], "f") == tuple(case["tests"])


def test_code_that_does_not_parse_is_a_reason():
    with pytest.raises(BadRow, match="the test code does not parse: invalid syntax"):
        golden_tests("def test_x(:", "f")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("".join(f"{'    ' * k}for x in {[0] * 10}:\n" for k in range(4)) + "                pass", "1000 turns"),
        ("\n".join(["a = (1, 1)", *["a = (a, a)"] * 30]), "too long"),
    ],
)
def test_what_unrolls_to_too_much_is_refused_before_it_is_unrolled(body, reason):
    code = "def test_f():\n" + indent(body, "    ") + "\n    assert f(1) == 2"
    with pytest.raises(BadRow, match=reason):
        golden_tests(code, "f")
