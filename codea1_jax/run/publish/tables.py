"""A run's rollouts as parquet files that `datasets.load_dataset` and pandas read."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from codea1_jax.common.errors import UserError
from codea1_jax.common.files import blamed_on_file, read_lines
from codea1_jax.run.telemetry import rollout_steps, rollouts_path
from data_pipeline import Problem, problem_files
from data_pipeline.problem import BadRow
from sandbox import Task, encode_literal

_TEST = pa.struct([(name, pa.string()) for name in ("call", "expected", "verdict")])
_QUESTION = {"step": pa.int64()} | dict.fromkeys(
    ("question_id", "question", "task", "entry_point", "reference"), pa.string()
)
_WRITTEN = {"prompt": pa.string(), "response": pa.string(), "reward": pa.float64(), "advantage": pa.float64()}
# A row is a program, or a suite, which was written for the program of its question with the number `program_index`.
_SCHEMAS: Mapping[str, pa.Schema] = {
    "programs": pa.schema(
        {**_QUESTION, "index": pa.int64(), **_WRITTEN}
        | {"program": pa.string(), "valid": pa.bool_(), "book": pa.list_(_TEST)}
    ),
    "suites": pa.schema(
        {**_QUESTION, "program_index": pa.int64(), "program": pa.string(), "index": pa.int64(), **_WRITTEN}
        | {"validity": pa.float64(), "adversarial": pa.float64(), "invalid": pa.int64()}
        | {"trained": pa.bool_(), "tests": pa.list_(_TEST)}
    ),
}


def write_rollouts(run: Path, folder: Path) -> dict[str, int]:
    """Writes a run's programs and suites to a file each, and returns how many rows each has.

    Raises UserError if the run has recorded none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    counts = dict.fromkeys(_SCHEMAS, 0)
    rows = {"programs": _programs, "suites": _suites}
    with blamed_on_file(run), ExitStack() as stack:
        files = {n: stack.enter_context(pq.ParquetWriter(folder / f"{n}.parquet", s)) for n, s in _SCHEMAS.items()}
        for questions in _recorded_steps(run):
            for name, schema in _SCHEMAS.items():
                table = pa.Table.from_pylist([row for each in questions for row in rows[name](each)], schema)
                files[name].write_table(table)
                counts[name] += table.num_rows
    return counts


def _recorded_steps(run: Path) -> Iterator[list[dict[str, Any]]]:
    steps = rollout_steps(run)
    if not steps:
        raise UserError(f"{run}: no rollouts are recorded there")
    return (read_lines(rollouts_path(run, step)) for step in steps)


def _programs(question: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return ({**question, **program} for program in question["programs"])


def _suites(question: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for program in question["programs"]:
        of = {"program": program["program"], "program_index": program["index"], "prompt": program["suite_prompt"]}
        yield from ({**question, **of, **suite} for suite in program["suites"])


def tested_questions(run: Path) -> list[Problem]:
    """A run's questions, each with the different valid tests of its suites.

    Raises UserError if the run has recorded no rollouts, or not what decides a verdict.
    """
    questions: dict[str, dict[str, Any]] = {}
    tests: dict[str, dict[str, Any]] = {}
    with blamed_on_file(run):
        for question in (each for recorded in _recorded_steps(run) for each in recorded):
            questions[question["question_id"]] = question
            of_question = tests.setdefault(question["question_id"], {})
            for test in (t for program in question["programs"] for suite in program["suites"] for t in suite["tests"]):
                call, expected = test["call"], test["expected"]
                if question["task"] == Task.STREAM and "sha256:" not in expected:
                    of_question[call] = {"input": call, "output": expected}
                elif encode_literal(expected) == expected:
                    *before, last = call.split("\n")
                    of_question[call] = "\n".join([*before, f"assert {last} == {expected}"])
        return [_problem(question, [*tests[name].values()]) for name, question in questions.items()]


def _problem(question: Mapping[str, Any], tests: list[Any]) -> Problem:
    row = {"id": question["question_id"], "solution": question["reference"], "tests": tests}
    row |= {key: question[key] for key in ("question", "entry_point", "task")}
    try:
        problem = problem_files.FORMAT.problem_of(row, row["id"])
    except BadRow:  # of a dataset whose references are read otherwise
        problem = Problem(row["id"], row["question"], row["solution"], row["entry_point"])
    return replace(problem, **question["judged"])
