import ast
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sandbox import CheckJob, Job, Limits, SandboxPool, Status

BROKEN = {"HumanEval/32"}  # its check passes a list where its own reference wants several arguments
SAMPLED = {"HumanEval/32", "MBPP/56", "MBPP/123", "MBPP/737"}  # each was once judged wrongly by somebody


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=2, preload=("numpy",), limits=Limits(memory_mb=1024, program_seconds=60)) as pool:
        yield pool


def problems(folder: Path, everything: bool) -> dict[str, CheckJob]:
    """The references of the sample, each with its own check."""
    rows = pq.read_table(folder / "evalplus_sample.parquet").to_pylist()
    jobs = {}
    for index, row in enumerate(rows):
        info = row["extra_info"]
        if everything or info["question_id"] in SAMPLED or index % 12 == 0:
            continues = row["data_source"] == "humanevalplus"
            program = row["problem"] + row["GT_code"] if continues else row["GT_code"]
            jobs[info["question_id"]] = CheckJob(program, row["test"], info["function_name"])
    return jobs


SOME_AND_ALL = pytest.mark.parametrize("everything", [False, pytest.param(True, marks=pytest.mark.long)])


@pytest.mark.shared_data
@SOME_AND_ALL
def test_every_reference_passes_its_own_check_but_the_broken_one(shared_data, pool, everything):
    jobs = problems(shared_data, everything)
    failed = {name for name, result in zip(jobs, pool.check(list(jobs.values())), strict=True) if not result.passed}
    assert failed == BROKEN


BROKEN_KODCODE = {"Prefill_00000083"}  # forgets an import in its tests


@pytest.mark.shared_data
def test_every_kodcode_solution_passes_its_own_tests_but_the_broken_one(shared_data, pool):
    rows = json.loads((shared_data / "kodcode_sample.json").read_text())
    jobs = [CheckJob(row["solution"], row.get("test_code") or row["test"], "", beside=True) for row in rows]
    failed = [row["question_id"] for row, result in zip(rows, pool.check(jobs), strict=True) if not result.passed]
    assert {name.rpartition("_")[0] for name in failed} == BROKEN_KODCODE


SWAPS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.GtE: ast.Lt,
}
SWAPS |= {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And, ast.In: ast.NotIn, ast.NotIn: ast.In}


def mutants(program: str) -> Iterator[str]:
    """The program with one operator or number changed, in every way."""
    places = len(list(ast.walk(ast.parse(program))))
    for place in range(places):
        tree = ast.parse(program)
        node = list(ast.walk(tree))[place]
        if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
            node.op = SWAPS[type(node.op)]()
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            node.ops[0] = SWAPS[type(node.ops[0])]()
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            node.value += 1
        else:
            continue
        yield ast.unparse(tree)


def calls(job: CheckJob) -> tuple[str, ...]:
    """The first calls that the check makes."""
    (inputs,) = (
        node.value
        for node in ast.walk(ast.parse(job.check))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "inputs"
    )
    elements = inputs.elts if isinstance(inputs, ast.List) else []
    texts = [f"{job.entry_point}(*{ast.unparse(element)})" for element in elements[:30]]
    return tuple(text for text in texts if len(text) < 2_000 and "inf" not in text)


def differ(reference, mutant) -> bool:
    """Whether a mutant visibly leaves the reference: another answer of yes or no, or none where there was one."""
    truths = {("0", "1"), ("1", "0")}
    pairs = zip(reference.outcomes, mutant.outcomes, strict=True)
    return any(a.value is not None and (b.status is Status.RAISED or (a.value, b.value) in truths) for a, b in pairs)


@pytest.mark.shared_data
@SOME_AND_ALL
def test_a_mutant_that_behaves_otherwise_fails_the_check(shared_data, pool, everything):
    wrongly_passed, tried = [], 0
    for name, job in problems(shared_data, everything).items():
        if name in BROKEN:
            continue
        programs = [job.program, *mutants(job.program)][:12]
        reference, *executions = pool.execute([Job(program, calls(job)) for program in programs])
        changed = [program for program, found in zip(programs[1:], executions, strict=True) if differ(reference, found)]
        for program in changed[:1]:
            tried += 1
            (result,) = pool.check([dataclasses.replace(job, program=program)])
            wrongly_passed += [(name, program)] if result.passed else []
    assert not wrongly_passed
    assert tried >= 8
