"""Readers of the benchmarks: each problem's solution passes its own check, and a wrong program does not."""

from collections.abc import Iterable

import pytest
from own_checks import passes
from own_rows import fixture_rows

import data_pipeline
from data_pipeline import Problem, bigcodebench, evalplus, evolvecoder, problem_files, unleaked
from data_pipeline.sources import find_format

EVALPLUS = evalplus.FORMATS[0]  # all read every form
HUMANEVAL_ROW, MBPP_ROW, TRAINING_ROW, BIGCODE_ROW, UNLEAKED_ROW, EVOLVED_ROW = fixture_rows("benchmarks").values()


@pytest.mark.parametrize("row", [HUMANEVAL_ROW, MBPP_ROW, TRAINING_ROW], ids=["humaneval", "mbpp", "training"])
def test_each_form_of_evalplus_gives_a_solution_that_passes_its_check(row):
    assert find_format([row]) in evalplus.FORMATS
    (problem,) = EVALPLUS.read([row]).problems
    assert passes(problem, problem.solution)
    assert not passes(problem, f"def {problem.entry_point}(x):\n    return 2 * x")
    assert f"def {problem.entry_point}(" in problem.question


def test_ids_sources_and_questions_of_evalplus():
    rows = [HUMANEVAL_ROW, MBPP_ROW, TRAINING_ROW]
    humaneval, mbpp, training = EVALPLUS.read(rows).problems
    assert [humaneval.id, mbpp.id, training.id] == ["HumanEval/900", "MBPP/901", "MBPP/56"]
    assert [humaneval.source, mbpp.source, training.source] == ["humanevalplus", "mbppplus", "mbppplus"]
    assert humaneval.question == HUMANEVAL_ROW["prompt"]
    assert mbpp.question == "Write a function to add one.\nassert grow(1) == 2\n\ndef grow(x):"
    assert mbpp.entry_point == "grow"


def test_a_completion_form_question_is_completed_by_its_code():
    row = TRAINING_ROW | {
        "problem": HUMANEVAL_ROW["prompt"],
        "GT_code": "\n\n" + HUMANEVAL_ROW["canonical_solution"],
        "test": HUMANEVAL_ROW["test"],
        "extra_info": {"function_name": "grow", "imports": "", "question_id": "HumanEval/900"},
    }
    (problem,) = EVALPLUS.read([row]).problems
    assert passes(problem, problem.solution)


def test_a_row_that_names_a_helper_gets_the_function_that_its_check_calls():
    row = TRAINING_ROW | {
        "GT_code": "\ndef helper(n):\n    return n\ndef grow(n):\n    return helper(n) + 1\n",
        "test": TRAINING_ROW["test"].replace("check(*", "grow(*").replace("check(check)", "check(helper)"),
        "extra_info": {"function_name": "helper", "imports": "", "question_id": "MBPP/123"},
    }
    (problem,) = EVALPLUS.read([row]).problems
    assert problem.entry_point == "grow"
    assert passes(problem, problem.solution)
    assert not passes(problem, "def grow(n):\n    return n")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (HUMANEVAL_ROW | {"test": "x = 1"}, "the test code defines no check(candidate)"),
        (HUMANEVAL_ROW | {"entry_point": "shrink"}, "the solution defines no function shrink"),
        (HUMANEVAL_ROW | {"canonical_solution": "    return ("}, "the solution does not parse"),
        (MBPP_ROW | {"test_list": ["assert other(1)"]}, "the solution defines no function other"),
        (MBPP_ROW | {"test": "import json"}, "the test code tests nothing"),
        (TRAINING_ROW | {"extra_info": {"question_id": "MBPP/56"}}, "no function_name"),
        (TRAINING_ROW | {"extra_info": None}, "no task_id or extra_info.question_id"),
        (
            HUMANEVAL_ROW | {"base_input": [[1]], "plus_input": []},
            "a row of evalplus's release on GitHub; read evalplus/",
        ),
    ],
)
def test_a_bad_evalplus_row_is_refused_with_the_reason(row, reason):
    loaded = EVALPLUS.read([row])
    assert loaded.problems == ()
    assert reason in loaded.refused[0].reason


def test_a_bigcodebench_row_is_its_complete_task_and_its_own_unittest_class():
    assert find_format([BIGCODE_ROW]) is bigcodebench.FORMAT
    (problem,) = bigcodebench.FORMAT.read([BIGCODE_ROW]).problems
    namespace: dict = {}
    exec(problem.solution + problem.check, namespace)
    namespace["TestCases"]("test_one").debug()
    assert problem.question == BIGCODE_ROW["complete_prompt"]
    assert (problem.id, problem.entry_point, problem.source) == ("BigCodeBench/902", "task_func", "bigcodebench")
    bad = bigcodebench.FORMAT.read([BIGCODE_ROW | {"test": "class"}, BIGCODE_ROW | {"entry_point": "f"}])
    assert [refusal.reason[:25] for refusal in bad.refused] == [
        "the test code does not pa",
        "the solution defines no f",
    ]


def test_an_unleaked_row_keeps_its_tests_and_gives_the_plain_ones_as_golden():
    assert find_format([UNLEAKED_ROW]) is unleaked.FORMAT
    (problem,) = unleaked.FORMAT.read([UNLEAKED_ROW]).problems
    assert (problem.id, problem.source) == ("ULT/7", "ult")
    assert problem.question == "Adds one.\n\ndef grow(p):"
    assert problem.golden_tests == ("assert grow(1) == 2", "assert grow(2.5) == 3.5")
    assert problem.check.splitlines() == UNLEAKED_ROW["test_list"]


def test_an_evolved_row_has_asserts_and_no_solution():
    (problem,) = evolvecoder.FORMAT.read([EVOLVED_ROW]).problems
    assert (problem.id, problem.entry_point, problem.solution) == ("EvolveCoder/TACO_1", "grow", "")
    assert (problem.source, find_format([EVOLVED_ROW])) == ("evolvecoder", evolvecoder.FORMAT)
    assert problem.golden_tests == (
        "assert grow(1) == 2",
        "assert sorted([grow(2)]) == [3]",
        "assert grow(0.5) == pytest.approx(1.5, rel=0.0, abs=1e-06)",
    )
    bad = evolvecoder.FORMAT.read([EVOLVED_ROW | {"tests": tests} for tests in (["x = 1"], ["assert ("], [])])
    assert [refusal.reason[:12] for refusal in bad.refused] == ["no test of t", "the tests do", "no test of t"]


def test_a_row_of_your_own_without_its_solution_is_no_evolved_one():
    own = EVOLVED_ROW | {"entry_point": "grow"}
    assert find_format([own]) is None
    assert find_format([own, own | {"solution": "def grow(x): ..."}]) is problem_files.FORMAT


SLOW = {"HumanEval/15", "HumanEval/36"} | {f"MBPP/{task}" for task in (123, 300, 389, 583, 592, 599, 630)}


def unsound(problems: Iterable[Problem]) -> list[str]:
    """The problems whose own solution does not pass."""

    def sound(problem: Problem) -> bool:
        try:
            return passes(problem, problem.solution)
        except TypeError:
            return False

    return [problem.id for problem in problems if not sound(problem)]


# Some solutions write "\w" where they mean a raw string.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
def test_evalplus_rows_are_read_whole_and_one_check_fails_every_solution(rows):
    loaded = data_pipeline.load(str(rows.evalplus))
    assert (len(loaded.problems), loaded.refused) in [(22, ()), (230, ())]  # ours, and the real ones
    assert unsound(problem for problem in loaded.problems if problem.id not in SLOW) == [*rows.broken]


@pytest.mark.long
def test_the_slow_evalplus_solutions_also_pass(real_rows):
    loaded = data_pipeline.load(str(real_rows.evalplus))
    assert unsound(problem for problem in loaded.problems if problem.id in SLOW) == []


def test_unleaked_rows_are_read_whole(rows):
    loaded = data_pipeline.load(str(rows.unleaked))
    assert loaded.refused == ()
    read = (
        len(loaded.problems),
        sum(len(problem.check.splitlines()) for problem in loaded.problems),
        sum(len(problem.golden_tests) for problem in loaded.problems),
    )
    assert read in [(10, 50, 49), (120, 600, 565)]  # ours, and the real ones
