"""What is read from 200 responses, here and by the original: where the two differ, docs/method.md explains it."""

import json
import re
from pathlib import Path

from codea1_jax.game.parsing import extract_program, extract_suite

ROOT = Path(__file__).parents[2]
# Responses of ours, and what the original's functions (commit be86d93) read from them, which were run by hand: of a
# suite (CALL, EXPR) of every test, of a program its text. `kind` is what a response is an example of.
RECORDED = json.loads((ROOT / "tests" / "fixtures" / "parsed_responses.json").read_text())


def read_here(response, reads):
    if reads == "suite":
        return [[test.call, test.stated] for test in extract_suite(response, "f").tests]
    return extract_program(response).strip("\n")


def documented(reads):
    """The kinds of a table in docs/method.md, in order."""
    section = (ROOT / "docs" / "method.md").read_text().partition("## What is read from a response")[2]
    tables = section.partition("\n## ")[0].split(f"| of a {reads} |")[1].split("\n\n")[0]
    return {kind for row in tables.splitlines()[2:] for kind in row.split("|")[1].strip().split("; ")}


def differing(reads):
    recorded = [each for each in RECORDED if each["reads"] == reads]
    return {each["kind"] for each in recorded if read_here(each["response"], reads) != each["original"]}


def test_suites_are_read_as_by_the_original_except_where_the_documentation_says():
    assert differing("suite") == documented("suite")


def test_programs_are_read_as_by_the_original_except_where_the_documentation_says():
    assert differing("program") == documented("program")


def test_the_responses_are_many_and_most_are_read_alike():
    assert len(RECORDED) == 200
    alike = [each for each in RECORDED if read_here(each["response"], each["reads"]) == each["original"]]
    (stated,) = re.findall(r"(\d+) of 200 written\s+responses", (ROOT / "docs" / "method.md").read_text())
    assert len(alike) == int(stated)
