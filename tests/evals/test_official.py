"""UnLeakedTestBench by its own protocol: one conversation, test functions, and its own scripts' figures."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from scripted import PROMPTS, TOKENIZER

from codea1_jax.errors import UserError
from codea1_jax.evals.answers.endpoint import messages
from codea1_jax.evals.answers.recorded import RecordedPlayer
from codea1_jax.evals.answers.requests import conversation_request
from codea1_jax.evals.commands.journal import Journal
from codea1_jax.evals.commands.official import evaluate_official
from codea1_jax.evals.scores.mutate import Mutant, mutate
from codea1_jax.evals.scores.official import read_test, score
from codea1_jax.evals.scores.unleaked import FunctionResult, metrics_of
from codea1_jax.game.players import ConversationRequest, TextPlayer
from codea1_jax.game.prompts import ANOTHER_FUNCTION, chat_prompts
from data_pipeline import Problem
from data_pipeline.reading import read
from sandbox import SandboxPool

# Responses of ours, whether pytest passes each alone, and how many mutants survive the passing ones: recorded from the
# benchmark's own script (commit d992b2d, cosmic-ray 8.7.0, pytest 9.2.0), which was run by hand.
RECORDED = json.loads((Path(__file__).parents[1] / "fixtures" / "unleaked_official.json").read_text())
QUICK = ("746", "7644", "186", "1720", "4724")  # without mutants that never end

STEP = Problem("ULT/1", "One above 0.\n\ndef f(x):", "def f(x):\n    return int(x > LIMIT)", "f", ())
STEP = replace(STEP, preamble="import math\nLIMIT = 0\n", source="ult", description="One above 0.")
RESPONSES = (
    "```python\ndef test_f():\n    assert f(0) == 0\n```",
    "def test_f():\n    assert f(math.pi) == 1",
    "def test_f():\n    assert f(1) == 0",
    "I have no other test.",
    "```python\nfrom mod import f as g, LIMIT\n\n\ndef test_f():\n    assert g(LIMIT) == 0\n```",
)


@pytest.fixture(scope="module")
def pool():
    with SandboxPool(workers=2, preload=("numpy",)) as pool:
        yield pool


def silent(done, total):
    pass


class Model:
    """Answers by the number of earlier responses; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[ConversationRequest] = []
        self.player = TextPlayer(self._respond)

    def _respond(self, requests):
        self.asked += requests
        yield from ((i, (RESPONSES[len(request.earlier)],)) for i, request in enumerate(requests))


@pytest.mark.parametrize("tasks", [QUICK, pytest.param(tuple(RECORDED), marks=pytest.mark.long)], ids=["some", "all"])
def test_verdicts_and_kills_are_those_of_the_benchmarks_own_script(pool, real_rows, tasks):
    functions = {problem.id.removeprefix("ULT/"): problem for problem in read(real_rows.unleaked).problems}
    responses = {functions[task]: RECORDED[task]["responses"] for task in tasks}
    results = score(responses, {problem: mutate(problem.solution) for problem in responses}, pool)
    for task, result in zip(tasks, results, strict=True):
        known = RECORDED[task]
        passed = [outcome == "correct" for outcome in result.outcomes]
        assert (task, passed, result.mutants, result.killed) == (
            *(task, known["passed"], known["mutants"], known["killed"]),
        )


@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # of mutants such as `x is 10`
def test_verdicts_and_kills_are_those_of_python(pool, own_row_files):
    """On functions without mutants that never end; every test of the rows is a response of its own."""
    functions = [problem for problem in read(own_row_files.unleaked).problems if "while" not in problem.solution][::3]
    responses = {f: [f"def test_it():\n    {line}" for line in f.check.splitlines()] for f in functions}
    mutants = {function: mutate(function.solution) for function in functions}
    assert len(functions) == 3
    for function, result in zip(functions, score(responses, mutants, pool), strict=True):
        passed = [holds(function.preamble + function.solution, response) for response in responses[function]]
        right = [response for response, holding in zip(responses[function], passed, strict=True) if holding]
        changed = [function.preamble + mutant.program for mutant in mutants[function]]
        killed = sum(not all(holds(program, response) for response in right) for program in changed)
        assert [outcome == "correct" for outcome in result.outcomes] == passed, function.id
        assert (result.mutants, result.killed) == (len(changed), killed), function.id


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
    tokens = chat_prompts(TOKENIZER, 8).test_function(STEP.description, "f", STEP.solution, RESPONSES[:2], False)
    assert tokens == TOKENIZER.encode_chat(messages(request, 8))
    with pytest.raises(UserError, match="holds no conversation"):
        PROMPTS.test_function(STEP.description, "f", STEP.solution, (), False)


def test_figures_follow_from_five_responses_and_an_interrupted_evaluation_resumes(pool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # mutants are kept below
    model = Model()
    broken = replace(STEP, id="ULT/2", solution="import nothing_of_this_name\ndef f(x):\n    return x")
    whole = evaluate_official([STEP, broken], model.player, pool, Journal(tmp_path / "out", {}), silent)
    assert [request.earlier for request in model.asked] == [RESPONSES[:k] for k in range(5)]
    found = whole["benchmarks"]["tests"]
    assert (found["problems"], found["sound"]) == (2, 1)
    assert found["pass_at_5"]["value"] == pytest.approx(100 * 3 / 10)
    assert found["mut_at_5"]["value"] == pytest.approx(2 * found["mut_at_5_all"]["value"])
    begun = Journal(tmp_path / "begun", {})
    begun.add("responses.jsonl", Journal(tmp_path / "out", {}).lines("responses.jsonl")[:3])
    again = Model()
    assert evaluate_official([STEP, broken], again.player, pool, begun, silent) == whole
    assert [len(request.earlier) for request in again.asked] == [3, 4]


def test_recorded_asserts_are_test_functions_and_what_is_missing_is_none(pool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded = RecordedPlayer(tests_of={STEP.id: ("assert f(0) == 0\nassert f(3) == 1", "assert f(1) == 0")})
    evaluate_official([STEP], recorded, pool, Journal(tmp_path / "out", {}), silent)
    (line,) = Journal(tmp_path / "out", {}).lines("results.jsonl")
    assert line["outcomes"] == ["correct", "wrong", "none", "none", "none"]


def test_a_mutant_that_never_ends_is_killed_and_wrong_tests_kill_nothing(pool):
    mutants = [Mutant("op", i, f"def f(x):\n    {body}") for i, body in enumerate(["while True: pass", "return 0"])]
    (result,) = score({STEP: RESPONSES}, {STEP: mutants}, pool)
    assert result.outcomes == ("correct", "correct", "wrong", "none", "correct")
    assert result.killed == 2
    (result,) = score({STEP: RESPONSES[2:4]}, {STEP: mutants}, pool)
    assert (result.outcomes, result.killed) == (("wrong", "none"), 0)


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
