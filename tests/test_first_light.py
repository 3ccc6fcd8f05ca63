"""scripts/first_light.py: which of the carried wheels a machine lacks."""

import pytest

from scripts.first_light import Package, chosen

CARRIED = {"ours": Package("1", ("a>=2", 'c>=9; extra == "x"', "numpy")), "a": Package("2", ()), "c": Package("1", ())}


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({}, ["a", "c", "ours"]),
        ({"a": Package("2.1", ()), "c": Package("1", ())}, ["ours"]),
        ({"a": Package("1", ()), "c": Package("1", ())}, ["a", "ours"]),  # too old
        ({"a": Package("1", ()), "c": Package("1", ("a<2",))}, ["a", "c", "ours"]),  # c asks for the old one
        ({"a": Package("2", ("c<1",)), "c": Package("1", ())}, ["a", "c", "ours"]),  # they did not suit each other
    ],
)
def test_wheels_are_installed_of_what_is_missing_or_does_not_suit(installed, expected):
    assert chosen(CARRIED, installed) == expected
