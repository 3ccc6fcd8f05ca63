"""Forecasts next to what others have published: benches/plan_published.py."""

import re

import pytest
from plan_published import DOCUMENT, HEAD, Published, read_published


@pytest.mark.parametrize("run", read_published(), ids=lambda run: run.name)
def test_what_others_have_measured_lies_above_the_limit_of_the_hardware(run: Published):
    assert 0 < run.limit < run.seconds


def test_the_table_has_all_of_these_runs_and_forecasts_of_the_same_order():
    _, _, rest = DOCUMENT.read_text().partition(HEAD)
    table = dict(re.findall(r"^\| \[(.+?)\].* \| ([\d.]+) \|$", rest.partition("\n\n")[0], re.MULTILINE))
    assert table.keys() == {run.name for run in read_published()}
    # Decoding a few rows a chip over eight devices is forecast far too fast, which the page explains and warns of.
    assert all(0.6 < float(ratio) < 3 for name, ratio in table.items() if "on tpu7x" not in name)
