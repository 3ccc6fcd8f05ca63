"""UnLeakedTestBench by its own protocol: one conversation, test functions, and its own scripts' figures."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from scripted import PROMPTS, TOKENIZER, silent

from codea1_jax.common.errors import UserError
from codea1_jax.evals.conversations import OFFICIAL, evaluate_conversations, score
from codea1_jax.evals.endpoint import messages
from codea1_jax.evals.journal import Journal
from codea1_jax.evals.mutants import mutate
from codea1_jax.evals.official import read_test, read_tests
from codea1_jax.evals.requests import conversation_request
from codea1_jax.evals.rounds import FunctionResult, metrics_of
from codea1_jax.evals.samples import RecordedPlayer
from codea1_jax.game.players import ConversationRequest, TextPlayer
from codea1_jax.game.prompts import chat_prompts
from codea1_jax.game.tasks.function import ANOTHER_FUNCTION
from data_pipeline import Problem
from data_pipeline.reading import read

pytestmark = pytest.mark.usefixtures("header_without_pandas")

# Responses of ours, whether pytest passes each alone, and how many mutants survive the passing ones: recorded from the
# benchmark's own script (commit d992b2d, cosmic-ray 8.7.0, pytest 9.2.0), which was run by hand.
RECORDED = json.loads((Path(__file__).parents[1] / "fixtures" / "unleaked_official.json").read_text())
QUICK = ("746", "7644", "186", "1720", "4724")  # without mutants that never end

STEP = Problem("ULT/1", "One above 0.\n\ndef f(x):", "LIMIT = 0\ndef f(x):\n    return int(x > LIMIT)", "f", ())
STEP = replace(STEP, source="ult", description="One above 0.")
RESPONSES = (
    "```python\ndef test_f():\n    assert f(0) == 0\n```",
    "def test_f():\n    assert f(math.pi) == 1",
    "def test_f():\n    assert f(1) == 0",
    "I have no other test.",
    "```python\nfrom mod import f as g, LIMIT\n\n\ndef test_f():\n    assert g(LIMIT) == 0\n```",
)


class Model:
    """Answers by the number of earlier responses; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[ConversationRequest] = []
        self.player = TextPlayer(self._respond)

    def _respond(self, requests):
        self.asked += requests
        yield from ((i, (RESPONSES[len(request.earlier)],)) for i, request in enumerate(requests))


def scored(numpy_pool, responses):
    """The results of functions' responses, in the order of the functions."""
    written = {problem: read_tests(texts, problem.entry_point) for problem, texts in responses.items()}
    found = {result.task_id: result for result in score(written, list(written), numpy_pool, silent)}
    return [found[problem.id] for problem in responses]


@pytest.mark.parametrize("tasks", [QUICK, pytest.param(tuple(RECORDED), marks=pytest.mark.long)], ids=["some", "all"])
def test_verdicts_and_kills_are_those_of_the_benchmarks_own_script(numpy_pool, real_rows, tasks, elsewhere):
    """The script was given the tests that pass."""
    functions = {problem.id.removeprefix("ULT/"): problem for problem in read(real_rows.unleaked).problems}
    responses = {functions[task]: RECORDED[task]["responses"] for task in tasks}
    passing = {
        problem: [response for response, passed in zip(texts, RECORDED[task]["passed"], strict=True) if passed]
        for task, (problem, texts) in zip(tasks, responses.items(), strict=True)
    }
    for task, result, killing in zip(tasks, scored(numpy_pool, responses), scored(numpy_pool, passing), strict=True):
        known = RECORDED[task]
        assert (task, [outcome == "correct" for outcome in result.outcomes]) == (task, known["passed"])
        assert (task, killing.mutants, killing.killed) == (task, known["mutants"], known["killed"])
        assert result.mutants == (known["mutants"] if all(known["passed"]) else 0)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # of mutants such as `x is 10`
def test_verdicts_and_kills_are_those_of_python(numpy_pool, own_row_files, elsewhere):
    """On functions without mutants that never end; every test of the rows that holds is a response of its own."""
    functions = [problem for problem in read(own_row_files.unleaked).problems if "while" not in problem.solution]
    header = "import math, re, string\nimport numpy as np\nfrom typing import *\n"
    tests = {f: [f"def test_it():\n    {line}" for line in f.check.splitlines()] for f in functions}
    responses = {f: [test for test in tests[f] if holds(header + f.solution, test)] for f in functions}
    responses = {f: texts for f, texts in responses.items() if texts}
    functions = list(responses)[::3]
    responses = {f: responses[f] for f in functions}
    assert len(functions) > 1
    for function, result in zip(functions, scored(numpy_pool, responses), strict=True):
        changed = [header + mutant.program for mutant in mutate(function.solution)]
        killed = sum(not all(holds(program, response) for response in responses[function]) for program in changed)
        assert set(result.outcomes) == {"correct"}, function.id
        assert (result.mutants, result.killed) == (len(changed), killed), function.id


def test_a_class_of_unittests_is_a_test(numpy_pool, own_row_files):
    function = read(own_row_files.unleaked).problems[0]
    line = function.check.splitlines()[0]
    texts = [
        f"import unittest\nclass Cases(unittest.TestCase):\n    def test_it(self):\n        {x}"
        for x in (line, "assert 0")
    ]
    (result,) = scored(numpy_pool, {function: texts})
    assert [outcome == "correct" for outcome in result.outcomes] == [True, False]


def holds(program: str, response: str) -> bool:
    names: dict = {}
    try:
        exec(f"{program}\n\n{response}", names)
        names["test_it"]()
    except Exception:  # noqa: BLE001  (whatever a mutant raises)
        return False
    return True


def test_the_figure_over_the_recorded_functions_is_the_scripts():
    results = [
        FunctionResult(
            task,
            tests=("t",) * 5,
            outcomes=tuple("correct" if passed else "wrong" for passed in known["passed"]),
            mutants=known["mutants"],
            killed=known["killed"],
        )
        for task, known in RECORDED.items()
    ]
    found = metrics_of(results)
    assert found["mut_at_5"].value == pytest.approx(100 - 21.39, abs=0.005)  # it prints the surviving mutants' rate
    assert found["pass_at_5"].value == pytest.approx(100 * 35 / 50)


def test_the_conversation_shows_the_function_once_and_then_every_response():
    request = conversation_request(STEP, RESPONSES[:2])
    system, first, *rest = messages(request, 8)
    assert (system["role"], first["role"]) == ("system", "user")
    for part in (STEP.solution, STEP.description, "def test_f():"):
        assert part in first["content"]
    assert [(m["role"], m["content"]) for m in rest] == [
        ("assistant", RESPONSES[0]),
        ("user", ANOTHER_FUNCTION),
        ("assistant", RESPONSES[1]),
        ("user", ANOTHER_FUNCTION),
    ]
    tokens = chat_prompts(TOKENIZER, 8).test_function(STEP, RESPONSES[:2], False)
    assert tokens == TOKENIZER.encode_chat(messages(request, 8))
    with pytest.raises(UserError, match="holds no conversation"):
        PROMPTS.test_function(STEP, (), False)


def test_figures_follow_from_five_responses_and_an_interrupted_evaluation_resumes(numpy_pool, tmp_path, elsewhere):
    model = Model()
    other = replace(STEP, id="ULT/2", solution="import nothing_of_this_name\ndef f(x):\n    return x")

    def evaluate(player, folder):
        return evaluate_conversations(
            [STEP, other], [STEP, other], OFFICIAL, player, numpy_pool, Journal(folder, {}), silent
        )

    whole = evaluate(model.player, tmp_path / "out")
    assert [request.earlier for request in model.asked] == [RESPONSES[:k] for k in range(5) for _ in range(2)]
    assert not any(request.cut for request in model.asked)
    found = whole["benchmarks"]["tests"]
    assert (found["problems"], found["mutated"], found["entered"]) == (2, 2, 0)
    assert found["pass_at_5"]["value"] == pytest.approx(100 * 3 / 10)
    assert "mut_at_5" not in found
    begun = Journal(tmp_path / "begun", {})
    begun.add("responses.jsonl", Journal(tmp_path / "out", {}).lines("responses.jsonl")[:3])
    again = Model()
    assert evaluate(again.player, tmp_path / "begun") == whole
    assert [len(request.earlier) for request in again.asked] == [1, 2, 2, 3, 3, 4, 4]


def test_recorded_asserts_are_test_functions_and_what_is_missing_is_none(numpy_pool, tmp_path, elsewhere):
    recorded = RecordedPlayer(tests_of={STEP.id: ("assert f(0) == 0\nassert f(3) == 1", "assert f(1) == 0")})
    evaluate_conversations([STEP], [STEP], OFFICIAL, recorded, numpy_pool, Journal(tmp_path / "out", {}), silent)
    (line,) = Journal(tmp_path / "out", {}).lines("results.jsonl")
    assert line["outcomes"] == ["correct", "wrong", "none", "none", "none"]


def test_a_function_enters_with_all_its_tests_which_may_have_one_name(numpy_pool, elsewhere):
    right = [f"```python\ndef test_f():\n    assert f({x}) == {int(x > 0)}\n```" for x in (0, 1, 2, 3, 4)]
    ((whole,), (short,), (half,)) = (
        scored(numpy_pool, {STEP: texts})
        for texts in (right, [*right[:4], "no test"], [*right[:4], "def test_f(x): ..."])
    )
    assert (whole.outcomes, whole.mutants) == (("correct",) * 5, len(mutate(STEP.solution)))
    zero, one = (scored(numpy_pool, {STEP: [text] * 5})[0].killed for text in right[:2])
    assert max(zero, one) < whole.killed  # each alone kills fewer
    assert (short.outcomes[-1], short.mutants) == ("none", 0)
    assert (half.outcomes[-1], half.mutants) == ("wrong", 0)


@pytest.mark.parametrize(
    ("response", "is_test"),
    [
        ("def test_f():\n    pass", True),
        ("Here:\n```python\nclass TestF:\n    def test_it(self): ...\n```", True),
        ("import unittest\nclass Cases(unittest.TestCase):\n    def test_it(self): ...", True),
        ("def check_f():\n    pass", False),
        ("async def test_f():\n    pass", False),
        ("assert f(1) == 1", False),
        ("", False),
    ],
)
def test_what_pytest_would_collect_is_a_test(response, is_test):
    assert (read_test(response) is not None) == is_test
