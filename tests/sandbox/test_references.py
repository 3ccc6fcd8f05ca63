"""References of benchmarks against their own checks: each passes, its mutants fail."""

import ast
import dataclasses
import itertools
import json
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest
from own_rows import RowFiles

from sandbox import CheckJob, Execution, Job, Limits, Status
from sandbox.syntax import parse_module

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
    places = len(list(ast.walk(parse_module(program))))
    for place in range(places):
        tree = parse_module(program)
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


def other_values(job: CheckJob) -> str:
    """The program with another value, of other truth, whatever it is called with."""
    name = job.entry_point
    return f"{job.program}\n_right = {name}\ndef {name}(*a, **k):\n    return None if _right(*a, **k) else [4711]\n"


def calls(job: CheckJob) -> tuple[str, ...]:
    """The first calls that the check makes."""
    (inputs,) = (
        node.value
        for node in ast.walk(parse_module(job.check))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "inputs"
    )
    elements = inputs.elts if isinstance(inputs, ast.List) else []
    texts = [f"{job.entry_point}(*{ast.unparse(element)})" for element in elements[:30]]
    return tuple(text for text in texts if len(text) < 2_000 and "inf" not in text)


def differ(reference: Execution, mutant: Execution) -> bool:
    """Whether a mutant leaves the reference on one of the inputs."""
    pairs = zip(reference.outcomes, mutant.outcomes, strict=True)
    return any(a.value is not None and b.status is not Status.TIMED_OUT and a.value != b.value for a, b in pairs)


# Some solutions write "\w" where they mean a raw string.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
def test_every_reference_with_a_mutation_that_changes_its_behaviour_fails(some_rows, numpy_jail):
    files, some = some_rows
    jobs = {name: job for name, job in problems(files, some).items() if name not in files.broken}
    quick = Limits(memory_mb=1024, call_seconds=0.3, program_seconds=3)
    tried = {name: [job.program, *itertools.islice(mutants(job.program), 8)] for name, job in jobs.items()}
    asked = {n: [numpy_jail.submit(Job(p, calls(jobs[n]), quick)) for p in programs] for n, programs in tried.items()}
    mutated = {}
    for name, job in jobs.items():
        reference, *executions = [future.result() for future in asked[name]]
        found = zip(tried[name][1:], executions, strict=True)
        changed = (program for program, execution in found if differ(reference, execution))
        mutated[name] = dataclasses.replace(job, program=next(changed, None) or other_values(job))
    results = zip(mutated, numpy_jail.execute(list(mutated.values())), strict=True)
    assert {name for name, result in results if result.passed} == files.toothless & jobs.keys()
