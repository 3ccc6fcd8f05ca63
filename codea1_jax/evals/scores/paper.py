"""UnLeakedTestBench as the authors of Code-A1 score it, from which the paper's second table comes.

A function's five tests are one module. The functions whose mutants count are a fixed tenth of the benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from codea1_jax.common.errors import UserError
from codea1_jax.evals.scores.conversations import WrittenTests
from codea1_jax.evals.scores.paper_tests import named, read_test
from codea1_jax.evals.scores.pytest_jobs import TestModules
from data_pipeline import Problem

FUNCTIONS = 3_909  # of the whole benchmark
FILE = "test.py"


def read_tests(responses: Sequence[str], entry_point: str) -> WrittenTests:
    """One module; a response in which no test can be read gives one that fails."""
    texts = tuple(read_test(response, entry_point, number) for number, response in enumerate(responses))
    ids = tuple(f"{FILE}::{named(entry_point, number)}" for number in range(len(texts)))
    return WrittenTests(texts, TestModules({FILE: "\n\n".join(texts)}, ids), every_test_counts=True)


def sampled(problems: Sequence[Problem], sample: Path | None = None) -> Sequence[Problem]:
    """The functions whose mutants count: those that a file names, else the authors' fixed tenth of the whole benchmark,
    and all of any other data.

    The file has one id a line, or a JSON list of them: a function's own (ULT/8), or task_N for that at place N, from 0,
    as in the authors' file. Raises UserError for an id that is neither.
    """
    if sample is None:
        if len(problems) != FUNCTIONS:
            return problems
        places = json.loads(Path(__file__).with_name("fixed_tenth.json").read_text())
        return [problems[place] for place in places]
    by_id = {problem.id: problem for problem in problems}
    by_id |= {f"task_{place}": problem for place, problem in enumerate(problems)}
    ids = _ids(sample)
    if unknown := [each for each in ids if each not in by_id]:
        more = f", and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise UserError(
            f"--sample: {sample}: --data has no function {unknown[0]!r}{more}; "
            f"write ids such as {problems[0].id}, or task_0 to task_{len(problems) - 1}"
        )
    return list(dict.fromkeys(by_id[each] for each in ids))


def _ids(sample: Path) -> list[str]:
    try:
        text = sample.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--sample: {sample}: {getattr(error, 'strerror', None) or 'not text'}") from error
    if not text.lstrip().startswith("["):
        ids = [line.strip() for line in text.splitlines() if line.strip()]
    else:
        try:
            ids = json.loads(text)
        except ValueError as error:
            raise UserError(f"--sample: {sample}: not JSON: {error}") from error
        if not all(isinstance(each, str) for each in ids):
            raise UserError(f"--sample: {sample}: a list of ids must be of texts")
    if not ids:
        raise UserError(f"--sample: {sample} names no function")
    return ids
