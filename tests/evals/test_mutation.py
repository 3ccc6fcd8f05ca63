"""Mutants are cosmic-ray's, and each is killed or survives as cosmic-ray's own runs say."""

import json
import sys
from dataclasses import replace

import pytest
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_item import MutationSpec
from cosmic_ray.work_item import TestOutcome as Outcome

from codea1_jax.evals import mutants as mutants_module
from codea1_jax.evals.mutants import make_mutants, mutate
from codea1_jax.evals.rounds import holding, submit_mutants
from codea1_jax.game.suites import extract_suite
from data_pipeline import Problem
from data_pipeline.reading import read

CLAMP = Problem(
    "clamp",
    "?",
    "LOW = 0\n\ndef clamp(x, high):\n    for _ in range(x):\n        x = x - (x > high)\n"
    "    return x if x >= LOW else LOW",
    "clamp",
    ("assert clamp(5, 3) == 3", "assert clamp(-1, 3) == 0", "assert clamp(2, 9) == 2"),
)


def killed_here(pool, problem, tests, every=1):
    mutants = mutate(problem.solution)[::every]
    return mutants, submit_mutants(pool, problem, mutants, tests)()


def killed_by_cosmic_ray(folder, problem, mutants, asserts):
    """The same mutants, run one after the other as `cosmic-ray exec` runs them."""
    (folder / "mod.py").write_text(problem.preamble + problem.solution)
    (folder / "tests.py").write_text("\n".join(["from mod import *", *asserts]))
    command = f"{sys.executable} -B -S -s -P -c \"import sys; sys.path.insert(0, '{folder}'); import tests\""
    verdicts = []
    for mutant in mutants:
        mutation = MutationSpec(folder / "mod.py", mutant.operator, mutant.occurrence, (0, 0), (1, 0))
        result = mutate_and_test([mutation], command, 2.0)
        verdicts.append(result.test_outcome is not Outcome.SURVIVED)
    return tuple(verdicts)


def suite(pool, problem):
    """The problem's own tests that hold, as the judge takes them and as lines of Python."""
    tests = extract_suite("\n".join(problem.golden_tests), problem.entry_point).tests
    kept = holding(pool, problem, tests)
    return tuple(kept.values()), [f"assert {test.call} == {test.stated}" for test in kept]


def test_each_mutant_is_killed_or_survives_as_with_cosmic_ray(pool, tmp_path):
    tests, asserts = suite(pool, CLAMP)
    mutants, killed = killed_here(pool, CLAMP, tests)
    assert len(mutants) == 29
    assert killed == killed_by_cosmic_ray(tmp_path, CLAMP, mutants, asserts)
    assert 0 < sum(killed) < len(killed)


def test_a_mutant_that_hangs_or_does_not_load_is_killed_and_no_test_kills_nothing(pool):
    problem = Problem(
        "p", "?", "SIZE = [1][0]\n\ndef f(x):\n    while x > 0:\n        x = x - 1\n    return x", "f", ()
    )
    (test,) = holding(pool, problem, extract_suite("assert f(1) == 0", "f").tests).values()
    hanging, broken = problem.solution.replace("x - 1", "x + 1"), problem.solution.replace("[0]", "[ 1]")
    mutants = [mutant for mutant in mutate(problem.solution) if mutant.program in (hanging, broken)]
    assert len(mutants) == 2
    assert submit_mutants(pool, problem, mutants, [test])() == (True, True)
    assert submit_mutants(pool, problem, mutants, [])() == (False, False)


def test_a_benchmark_functions_mutants_end_as_with_cosmic_ray(pool, rows, tmp_path):
    compare_with_cosmic_ray(pool, rows, tmp_path, functions=1, every=4)


@pytest.mark.long
def test_many_functions_mutants_end_as_with_cosmic_ray(pool, real_rows, tmp_path):
    compare_with_cosmic_ray(pool, real_rows, tmp_path, functions=20, every=1)


def compare_with_cosmic_ray(pool, files, tmp_path, functions, every):
    """Of the rows, functions with tests that hold, the shortest first."""
    compared = 0
    for row in sorted(read(files.unleaked).problems, key=lambda p: len(p.solution)):
        problem = replace(
            row, preamble="import math, os, random, re\n"
        )  # numpy takes a plain Python too long to import
        tests, asserts = suite(pool, problem)
        if tests:
            mutants, killed = killed_here(pool, problem, tests, every)
            assert killed == killed_by_cosmic_ray(tmp_path, problem, mutants, asserts), problem.id
            compared += 1
        if compared == functions:
            return
    pytest.fail(f"the file has only {compared} functions with tests that hold")


def test_mutants_are_made_once_and_kept(tmp_path, monkeypatch):
    first = make_mutants([CLAMP.solution, "x = 1"], tmp_path, workers=1)
    assert first == [mutate(CLAMP.solution), mutate("x = 1")]
    assert all(mutant.program != CLAMP.solution for mutant in first[0])
    monkeypatch.setattr(mutants_module, "mutants_or_reason", lambda program: pytest.fail("made again"))
    assert make_mutants(["x = 1", CLAMP.solution], tmp_path) == first[::-1]
    assert len(list(tmp_path.iterdir())) == 2
    assert json.loads(next(tmp_path.iterdir()).read_text())


def test_a_function_that_cannot_be_mutated_costs_no_other_its_mutants(tmp_path):
    nested = f"def f(x):\n    return {'not ' * 900}x"
    long = "def f(x):\n" + "".join(f"    if x == {i}:\n        return {i}\n" for i in range(3_000))
    for _ in range(2):  # made, and read again
        deep, short, many = make_mutants([nested, "x = 1", long], tmp_path, workers=1)
        assert isinstance(deep, str) and deep.startswith("cosmic-ray cannot mutate it: RecursionError: ")
        assert short == mutate("x = 1")
        assert isinstance(many, str) and f"mutants of {len(long)} characters each are too many" in many
