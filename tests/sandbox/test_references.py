"""References of benchmarks against their own checks: each passes but the broken ones."""

import json

import pyarrow.parquet as pq
from own_rows import RowFiles

from sandbox import CheckJob

ALWAYS = {"HumanEval/32", "MBPP/56", "MBPP/123", "MBPP/737"}  # real ones that were once judged wrongly by somebody


def problems(files: RowFiles, some: bool) -> dict[str, CheckJob]:
    """The references of evalplus rows, or of some of them, each with its own check."""
    rows = pq.read_table(files.evalplus).to_pylist()
    jobs = {}
    for index, row in enumerate(rows):
        info = row["extra_info"]
        if not some or info["question_id"] in ALWAYS or index % 12 == 0:
            continues = row["data_source"] == "humanevalplus"
            program = row["problem"] + row["GT_code"] if continues else row["GT_code"]
            jobs[info["question_id"]] = CheckJob(program, row["test"], info["function_name"])
    return jobs


def test_every_reference_passes_its_own_check_but_the_broken_one(some_rows, numpy_jail):
    files, some = some_rows
    jobs = problems(files, some)
    failed = {
        name for name, result in zip(jobs, numpy_jail.execute(list(jobs.values())), strict=True) if not result.passed
    }
    assert failed == files.broken


def test_every_kodcode_solution_passes_its_own_tests_beside_it(rows, numpy_jail):
    """In one module, since one row's tests count on an import of its solution."""
    read = json.loads(rows.kodcode.read_text())
    jobs = [CheckJob(row["solution"], row.get("test_code") or row["test"], "", in_process=True) for row in read]
    failed = [
        row["question_id"] for row, result in zip(read, numpy_jail.execute(jobs), strict=True) if not result.passed
    ]
    assert failed == []
