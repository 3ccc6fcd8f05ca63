"""UnLeakedTestBench as the authors of Code-A1 score it: what a test is, which functions count, which mutants die."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from scripted import TOKENIZER

from codea1_jax.evals.answers.requests import conversation_request
from codea1_jax.evals.commands.journal import Journal
from codea1_jax.evals.commands.official import evaluate_paper
from codea1_jax.evals.scores import paper
from codea1_jax.evals.scores.mutate import mutate
from codea1_jax.evals.scores.paper_tests import collected, read_test
from codea1_jax.game import prompts
from codea1_jax.game.players import TextPlayer
from codea1_jax.game.prompts import chat_prompts
from data_pipeline import Problem
from sandbox import SandboxPool

# Responses of ours, each with what the authors' own script (Aoshining/UnLeakedTestBench, commit 6132139) read from it
# when it was run by hand.
READ = json.loads((Path(__file__).parents[1] / "fixtures" / "unleaked_paper_reading.json").read_text())

STEP = Problem("ULT/1", "One above 0.", "def f(x):\n    return int(x > 0)", "f", (), source="ult", description="One.")
RIGHT = tuple(f"```python\nassert f({x}) == {int(x > 0)}\n```" for x in (0, 1, 2, -1, 5))


@pytest.fixture(scope="module", autouse=True)
def header_without_pandas():
    """The jail's Python need not have pandas for these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            paper,
            "HEADER",
            paper.HEADER.replace("import numpy, pandas", "import numpy").replace("import pandas as pd\n", ""),
        )
        yield


@pytest.fixture(scope="module")
def pool():
    with SandboxPool(workers=2, preload=("numpy",)) as pool:
        yield pool


def scored(pool, responses, problem=STEP, mutated=True):
    (result,) = paper.score({problem: responses}, [problem] if mutated else [], pool)
    return result


@pytest.mark.parametrize("number", range(len(READ)))
def test_a_response_is_read_as_by_the_authors_script(number):
    response, expected = READ[number]
    assert read_test(response, "f", number).strip() == expected.strip()


def test_only_functions_that_pytest_can_run_are_tests():
    module = (
        "def test_a(): ...\ndef test_b(x): ...\ndef test_c(x=1, *, y=2): ...\ndef helper(): ...\ndef test_a(y): ..."
    )
    assert collected(module) == {"test_a": False, "test_b": False, "test_c": True}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # mutants are kept below


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_a_function_enters_with_all_its_tests_and_they_kill_together(pool):
    result = scored(pool, RIGHT)
    module = "\n".join(read_test(response, "f", i) for i, response in enumerate(RIGHT))
    killed = 0
    for mutant in mutate(STEP.solution):
        names: dict = {}
        exec(f"{mutant.program}\n{module}", names)
        killed += any(fails(names[name]) for name in collected(module))
    assert result.outcomes == ("correct",) * 5
    assert (result.mutants, result.killed) == (len(mutate(STEP.solution)), killed)
    assert killed > 0


def fails(test):
    try:
        test()
    except Exception:  # noqa: BLE001  (whatever a mutant raises)
        return True
    return False


@pytest.mark.parametrize(
    ("last", "passed"),
    [
        ("```python\nassert f(1) == 0\n```", 4),
        ("no test", 4),
        ("```python\nimport nothing_of_this_name\nassert f(1) == 1\n```", 4),  # inside the function: it fails alone
        ("```python\nnothing_of_this_name\ndef check():\n    assert f(1) == 1\n```", 0),  # the module does not load
        ("```python\ndef helper(x):\n    return x\ndef test_it():\n    assert f(helper(1)) == 1\n```", 4),
    ],
)
def test_one_test_that_does_not_pass_keeps_the_function_out(pool, last, passed):
    result = scored(pool, (*RIGHT[:4], last))
    assert result.outcomes.count("correct") == passed
    assert (result.mutants, result.kill_rate) == (0, None)


def test_functions_outside_the_sample_have_no_mutants(pool):
    assert scored(pool, RIGHT, mutated=False).mutants == 0


def test_the_fixed_tenth_is_of_the_whole_benchmark_alone():
    whole = [replace(STEP, id=f"ULT/{number}") for number in range(paper.FUNCTIONS)]
    tenth = paper.fixed_tenth(whole)
    assert len({problem.id for problem in tenth}) == 390
    assert tenth[0].id == "ULT/8"
    assert paper.fixed_tenth(whole[:10]) == whole[:10]


def test_figures_are_over_all_functions_and_an_interrupted_evaluation_resumes(pool, tmp_path):
    broken = replace(STEP, id="ULT/2", solution="import nothing_of_this_name\ndef f(x):\n    return x")
    wrong = replace(STEP, id="ULT/3")

    def respond(requests):
        for i, request in enumerate(requests):
            assert request.cut
            response = (
                "no test" if request.problem is wrong and len(request.earlier) > 2 else RIGHT[len(request.earlier)]
            )
            yield i, (response,)

    problems = [STEP, broken, wrong]
    whole = evaluate_paper(problems, TextPlayer(respond), pool, Journal(tmp_path / "out", {}), lambda done, total: None)
    found = whole["benchmarks"]["tests"]
    assert found["pass_at_5"]["value"] == pytest.approx(100 * (5 + 0 + 3) / 15)
    result = scored(pool, RIGHT)
    assert found["mut_at_5"]["value"] == pytest.approx(100 * result.killed / result.mutants)
    assert found["mul"]["value"] == pytest.approx(found["pass_at_5"]["value"] * found["mut_at_5"]["value"] / 100)
    assert (found["problems"], found["mutated"], found["entered"]) == (3, 3, 1)
    assert "mut_at_5_all" not in found
    begun = Journal(tmp_path / "begun", {})
    begun.add("responses.jsonl", Journal(tmp_path / "out", {}).lines("responses.jsonl")[:4])
    assert evaluate_paper(problems, TextPlayer(respond), pool, begun, lambda done, total: None) == whole


def test_long_conversations_and_prompts_are_cut(monkeypatch):
    earlier = ("first response", "second response")
    whole = prompts.test_function_messages("One.", "f", STEP.solution, earlier)
    words = len(TOKENIZER.encode(" ".join(message["content"] for message in whole)))
    write = chat_prompts(TOKENIZER, 8).test_function
    monkeypatch.setattr(prompts, "PAPER_CONTEXT", words)
    assert write("One.", "f", STEP.solution, earlier, True) == TOKENIZER.encode_chat(whole)
    monkeypatch.setattr(prompts, "PAPER_CONTEXT", words - 1)
    short = TOKENIZER.encode_chat([whole[0], whole[-2], whole[-1]])
    assert write("One.", "f", STEP.solution, earlier, True) == short
    assert write("One.", "f", STEP.solution, earlier, False) == TOKENIZER.encode_chat(whole)
    monkeypatch.setattr(prompts, "PAPER_PROMPT", 7)
    assert write("One.", "f", STEP.solution, earlier, True) == short[-7:]
    assert conversation_request(STEP, earlier, cut=True).cut
