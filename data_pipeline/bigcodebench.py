"""Reads BigCodeBench (https://huggingface.co/datasets/bigcode/bigcodebench): the complete variant, full or hard.

The problem's `check` is the benchmark's own unittest class, to be executed in one namespace with the program.
"""

from data_pipeline.problem import Problem
from data_pipeline.row_format import Format
from data_pipeline.rows import Row, identifier, text
from data_pipeline.source_code import entry_function, parse


def _problem(row: Row, name: str) -> Problem:
    prompt, entry_point, check = text(row, "complete_prompt"), identifier(row, "entry_point"), text(row, "test")
    solution = prompt + text(row, "canonical_solution")
    entry_function(solution, entry_point)
    parse(check, "the test code")
    return Problem(
        id=name,
        question=prompt,
        solution=solution,
        entry_point=entry_point,
        check=check,
        # "Calibrated", as on the benchmark's leaderboard: a sample may rely on the question's imports.
        preamble=f"{text(row, 'code_prompt')}\n    pass\n" if row.get("code_prompt") else "",
        source="bigcodebench",
    )


FORMAT = Format(
    "BigCodeBench",
    frozenset({"task_id", "complete_prompt", "canonical_solution", "test", "entry_point"}),
    lambda row: text(row, "task_id"),
    _problem,
)
