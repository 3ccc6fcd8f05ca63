"""What is read from 200 responses, here and by the original: where the two differ, docs/method.md explains it."""

import json
import re
from pathlib import Path

import pytest

from codea1_jax.game.suites import extract_suite
from data_pipeline.responses import paper_program, program_in

ROOT = Path(__file__).parents[2]
# Responses of ours, and what the original's functions (commit be86d93) read from them, which were run by hand: of a
# suite (CALL, EXPR) of every test, of a program its text. `kind` is what a response is an example of.
RECORDED = json.loads((ROOT / "tests" / "fixtures" / "parsed_responses.json").read_text())


def read_here(response, reads, reading):
    if reads == "suite":
        return [[test.call, test.stated] for test in extract_suite(response, "f", reading).tests]
    return (paper_program(response) if reading == "paper" else program_in(response, "f")).strip("\n")


def documented(reads):
    """The kinds of a table in docs/method.md, in order."""
    section = (ROOT / "docs" / "method.md").read_text().partition("## What is read from a response")[2]
    tables = section.partition("\n## ")[0].split(f"| of a {reads} |")[1].split("\n\n")[0]
    return {kind for row in tables.splitlines()[2:] for kind in row.split("|")[1].strip().split("; ")}


def differing(reads, reading):
    recorded = [each for each in RECORDED if each["reads"] == reads]
    return {each["kind"] for each in recorded if read_here(each["response"], reads, reading) != each["original"]}


@pytest.mark.parametrize("reads", ["suite", "program"])
def test_responses_are_read_as_by_the_original_except_where_the_documentation_says(reads):
    assert differing(reads, "commonmark") == documented(reads)


def test_the_papers_reading_is_the_originals_except_where_the_documentation_says():
    assert differing("program", "paper") == set()
    assert differing("suite", "paper") == documented("suite") - {"one line in a fence"}


def test_the_responses_are_many_and_most_are_read_alike():
    assert len(RECORDED) == 200
    alike = {
        reading: sum(read_here(e["response"], e["reads"], reading) == e["original"] for e in RECORDED)
        for reading in ("paper", "commonmark")
    }
    found = re.search(
        r"Of 200\s+written\s+responses, (\d+) are read by `reading: paper` .*?, (\d+) by `commonmark`",
        (ROOT / "docs" / "method.md").read_text(),
        re.DOTALL,
    )
    assert list(alike.values()) == list(map(int, found.groups()))
