"""UnLeakedTestBench as the authors of Code-A1 score it: what a test is, which functions count, which mutants die."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest
from scripted import PROMPTS, TOKENIZER, silent

from codea1_jax.common.errors import UserError
from codea1_jax.config.prompts import BUILT_IN_TEMPLATES
from codea1_jax.evals import paper
from codea1_jax.evals.endpoint import messages
from codea1_jax.evals.journal import Journal
from codea1_jax.evals.mutants import UNMADE, make_mutants, mutate
from codea1_jax.evals.paper import evaluate_conversations, score
from codea1_jax.evals.paper_reading import read_test, read_tests
from codea1_jax.evals.pytest_jobs import pytest_job, read_run
from codea1_jax.evals.requests import conversation_request
from codea1_jax.evals.samples import JournaledPlayer, RecordedPlayer
from codea1_jax.game import prompts
from codea1_jax.game.players import TextPlayer
from codea1_jax.game.prompts import chat_prompts
from codea1_jax.game.tasks.function import ANOTHER_FUNCTION
from codea1_jax.game.tasks.function import test_function_messages as conversation
from data_pipeline import Problem

pytestmark = pytest.mark.usefixtures("header_without_pandas")

FIXTURES = Path(__file__).parents[1] / "fixtures"
# Responses of ours, each with what the authors' own script (Aoshining/UnLeakedTestBench, commit 6132139) read from it
# when it was run by hand.
READ = json.loads((FIXTURES / "unleaked_paper_reading.json").read_text())
# Responses of many forms, by name, each with the test that two readings written separately agree on.
FORMS = json.loads((FIXTURES / "unleaked_paper_forms.json").read_text())
# Functions of ours with five responses each, and what the authors' scripts made of them (the same commit, cosmic-ray
# 8.7.0, pytest 9.2.0) when they were run by hand, with 10 for 3,909 functions in the denominator.
SCORED = json.loads((FIXTURES / "unleaked_paper_scores.json").read_text())
# Functions and tests of ours with cosmic-ray's own verdicts: `git show 7f7e96e:scripts/record_cosmic_ray.py`.
VERDICTS = json.loads((FIXTURES / "cosmic_ray_verdicts.json").read_text())
SECONDS = 3.0  # cosmic-ray waits for 10; of these mutants, those that end do so in a few hundredths
QUICK = ("is_leap", "load_point", "decode", "save", "greet")  # few mutants that never end

STEP = Problem("ULT/1", "One above 0.", "def f(x):\n    return int(x > 0)", "f", (), source="ult", description="One.")
RIGHT = tuple(f"```python\nassert f({x}) == {int(x > 0)}\n```" for x in (0, 1, 2, -1, 5))


def function(entry_point, code):
    return Problem(f"ULT/{entry_point}", "?", code, entry_point, (), source="ult", description="?")


def scored(numpy_pool, responses, problem=STEP, mutated=True):
    written = {problem: read_tests(responses, problem.entry_point)}
    (result,) = score(written, [problem] if mutated else [], numpy_pool, silent)
    return result


@pytest.mark.parametrize("number", range(len(READ)))
def test_a_response_is_read_as_by_the_authors_script(number):
    response, expected = READ[number]
    assert read_test(response, "f", number).strip() == expected.strip()


@pytest.mark.parametrize("name", FORMS)
def test_a_response_of_every_form_is_read(name):
    response, expected = FORMS[name]
    assert ast.dump(ast.parse(read_test(response, "f", 3))) == ast.dump(ast.parse(expected))


@pytest.mark.parametrize(
    "names",
    [QUICK, pytest.param(tuple(each["entry_point"] for each in VERDICTS), marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_every_mutant_ends_as_with_cosmic_ray(numpy_pool, names):
    functions = [each for each in VERDICTS if each["entry_point"] in names]
    for each in functions:
        mutants = mutate(each["code"])
        tests = "\n\n".join(each["tests"])
        runs = [numpy_pool.submit(pytest_job(mutant.program, tests, SECONDS, "-x")) for mutant in mutants]
        found: dict[str, str] = {}
        for mutant, run in zip(mutants, runs, strict=True):
            survives = read_run(run.result()).succeeded
            found[mutant.operator] = found.get(mutant.operator, "") + ("s" if survives else "k")
        expected = {name: "".join("s" if o == "s" else "k" for o in all_) for name, all_ in each["verdicts"].items()}
        assert found == expected, each["entry_point"]


def test_the_recorded_mutants_are_of_every_operator_and_end_in_every_way():
    operators = {name for each in VERDICTS for name in each["verdicts"]}
    assert len(VERDICTS) == 20 and len(operators) >= 180
    assert {outcome for each in VERDICTS for all_ in each["verdicts"].values() for outcome in all_} == set("ksti")


def test_a_mutant_that_cosmic_ray_cannot_make_is_killed():
    tried = "def f(x):\n    try:\n        return x\n    except {}:\n        return 0"
    plain, dotted = (mutate(tried.format(kinds)) for kinds in ("(ValueError, KeyError)", "(json.Error, KeyError)"))
    made = [[m.program != UNMADE for m in mutants if "Exception" in m.operator] for mutants in (plain, dotted)]
    assert made == [[True, True], [False, True]]


@pytest.mark.long
def test_pass_at_5_and_mut_at_5_are_the_authors_scripts_to_the_last_digit(numpy_pool, tmp_path):
    problems = [function(each["entry_point"], each["code"]) for each in SCORED["functions"]]
    responses = {problem.id: each["responses"] for problem, each in zip(problems, SCORED["functions"], strict=True)}

    def respond(requests):
        yield from ((i, (responses[request.problem.id][len(request.earlier)],)) for i, request in enumerate(requests))

    journal = Journal(tmp_path / "out", {})
    found = evaluate_conversations(problems, problems, TextPlayer(respond), numpy_pool, journal, silent)
    measured = found["benchmarks"]["tests"]
    lines = {line["task_id"]: line for line in journal.lines("results.jsonl")}
    for problem, each in zip(problems, SCORED["functions"], strict=True):
        line = lines[problem.id]
        assert (line["passed"], line["mutants"], line["killed"]) == (
            *(each["passed"], each["mutants"], each["killed"]),
        ), problem.id
    assert measured["pass_at_5"]["value"] == pytest.approx(SCORED["pass_at_5"], abs=1e-9)
    assert measured["mut_at_5"]["value"] == pytest.approx(SCORED["mut_at_5"], abs=1e-9)
    assert measured["mul"]["value"] == pytest.approx(SCORED["pass_at_5"] * SCORED["mut_at_5"] / 100, abs=1e-9)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_a_function_enters_with_all_its_tests_and_they_kill_together(numpy_pool):
    result = scored(numpy_pool, RIGHT)
    module = "\n".join(read_test(response, "f", i) for i, response in enumerate(RIGHT))
    killed = 0
    for mutant in mutate(STEP.solution):
        names: dict = {}
        exec(f"{mutant.program}\n{module}", names)
        killed += any(fails(names[f"test_f_{i}"]) for i in range(5))
    assert result.passed == 5
    assert (result.mutants, result.killed) == (len(mutate(STEP.solution)), killed)
    assert killed > 0
    assert scored(numpy_pool, RIGHT, mutated=False).mutants == 0


def fails(test):
    try:
        test()
    except Exception:  # noqa: BLE001  (whatever a mutant raises)
        return True
    return False


@pytest.mark.parametrize(
    ("last", "passed", "enters"),
    [
        ("```python\nassert f(1) == 0\n```", 4, False),
        ("no test", 4, False),
        ("```python\nimport nothing_of_this_name\nassert f(1) == 1\n```", 4, False),  # inside the function: alone
        ("```python\nnothing_of_this_name\ndef check():\n    assert f(1) == 1\n```", 0, False),  # nothing loads
        ("```python\ndef helper(x):\n    return x\ndef test_it():\n    assert f(helper(1)) == 1\n```", 4, False),
        ("def test_f(monkeypatch, tmp_path):\n    assert f(1) == 1", 5, True),  # pytest's own fixtures
        ("def test_f(unknown):\n    assert f(1) == 1", 4, False),  # an error, not a failure
        ("```python\ndef check():\n    pytest.skip()\n    assert f(1) == 0\n```", 4, True),
        ("```python\ndef any_name():\n    assert f(1) == 1\n```", 5, True),
        ("```python\ntest_more = lambda: None\ndef any_name():\n    assert f(1) == 1\n```", 6, True),
        ("```python\n@pytest.mark.parametrize('x', [1, 2, 3])\ndef check(x):\n    assert f(x) == 1\n```", 7, True),
    ],
)
def test_a_function_enters_if_pytest_succeeds_and_every_test_that_passes_counts(numpy_pool, last, passed, enters):
    result = scored(numpy_pool, (*RIGHT[:4], last))
    assert result.passed == passed
    assert (result.mutants > 0) == enters


def test_tests_run_together_as_in_one_process(numpy_pool):
    """Here the second test passes after the first alone, which fills the default argument."""
    kept = function("f", "def f(x, seen=[]):\n    seen.append(x)\n    return len(seen)")
    assert scored(numpy_pool, [f"assert f({n}) == {n}" for n in range(1, 6)], kept).passed == 0
    fenced = [f"```python\nassert f(0) == {n}\n```" for n in range(1, 6)]
    assert scored(numpy_pool, fenced, kept).passed == 5


def test_tests_that_take_too_long_together_pass_none_and_slow_ones_keep_the_function_out(numpy_pool, monkeypatch):
    monkeypatch.setattr(paper, "LONGEST", 0.4)
    slow = scored(numpy_pool, (*RIGHT[:4], "```python\nimport time\ntime.sleep(0.5)\nassert f(1) == 1\n```"))
    assert (slow.passed, slow.mutants) == (5, 0)
    monkeypatch.setattr(paper, "ON_FUNCTION", 0.5)
    endless = scored(numpy_pool, (*RIGHT[:4], "```python\nwhile True: pass\nassert f(1) == 1\n```"))
    assert (endless.passed, endless.mutants) == (0, 0)


def test_the_fixed_tenth_is_of_the_whole_benchmark_alone():
    whole = [replace(STEP, id=f"ULT/{number}") for number in range(paper.FUNCTIONS)]
    tenth = paper.mutated_functions(whole)
    assert len({problem.id for problem in tenth}) == 390
    assert tenth[0].id == "ULT/8"
    assert paper.mutated_functions(whole[:10]) == whole[:10]


def test_figures_are_over_all_functions_and_an_interrupted_evaluation_resumes(numpy_pool, tmp_path):
    broken = replace(STEP, id="ULT/2", solution="import nothing_of_this_name\ndef f(x):\n    return x")
    wrong = replace(STEP, id="ULT/3")

    def respond(requests):
        for i, request in enumerate(requests):
            assert "</think>" not in "".join(request.earlier)
            response = (
                "no test" if request.problem is wrong and len(request.earlier) > 2 else RIGHT[len(request.earlier)]
            )
            yield i, (f"<think>\nassert f(1) == 3\n</think>\n{response}",)

    problems = [STEP, broken, wrong]
    shown: list[tuple[int, int, str]] = []

    def evaluate(folder):
        journal = Journal(tmp_path / folder, {})
        player = JournaledPlayer(TextPlayer(respond), journal)
        return evaluate_conversations(
            problems, problems, player, numpy_pool, journal, lambda *how_far: shown.append(how_far)
        )

    whole = evaluate("out")
    found = whole["benchmarks"]["tests"]
    assert found["pass_at_5"]["value"] == pytest.approx(100 * (5 + 0 + 3) / 15)
    result = scored(numpy_pool, RIGHT)
    assert found["mut_at_5"]["value"] == pytest.approx(100 * result.killed / result.mutants)
    assert found["mul"]["value"] == pytest.approx(found["pass_at_5"]["value"] * found["mut_at_5"]["value"] / 100)
    assert (found["problems"], found["mutated"], found["entered"]) == (3, 3, 1)
    assert shown == [
        *((done, 3, "functions") for done in (1, 2, 3)),
        (1, 1, "functions mutated"),
        *((done, result.mutants, "mutants") for done in range(1, result.mutants + 1)),
    ]
    begun = Journal(tmp_path / "begun", {})
    begun.add("responses.jsonl", Journal(tmp_path / "out", {}).lines("responses.jsonl")[:4])
    begun.add("results.jsonl", Journal(tmp_path / "out", {}).lines("results.jsonl")[:1])
    assert evaluate("begun") == whole


def test_long_conversations_and_prompts_are_cut(monkeypatch):
    earlier = ("first response", "second response")
    whole = conversation(STEP, earlier, BUILT_IN_TEMPLATES)
    words = len(TOKENIZER.encode(" ".join(message["content"] for message in whole)))
    write = chat_prompts(TOKENIZER, 8).test_function
    monkeypatch.setattr(prompts, "PAPER_CONTEXT", words)
    assert write(STEP, earlier) == TOKENIZER.encode_chat(whole)
    monkeypatch.setattr(prompts, "PAPER_CONTEXT", words - 1)
    short = TOKENIZER.encode_chat([whole[0], whole[-2], whole[-1]])
    assert write(STEP, earlier) == short
    monkeypatch.setattr(prompts, "PAPER_PROMPT", 7)
    assert write(STEP, earlier) == short[-7:]


def test_the_conversation_shows_the_function_once_and_then_every_response():
    request = conversation_request(STEP, ("first response", "second response"))
    system, first, *rest = messages(request, 8)
    assert (system["role"], first["role"]) == ("system", "user")
    for part in (STEP.solution, STEP.description, "def test_f():"):
        assert part in first["content"]
    said = [(message["role"], message["content"]) for message in rest]
    assert said[::2] == [("assistant", "first response"), ("assistant", "second response")]
    assert said[1::2] == [("user", ANOTHER_FUNCTION)] * 2
    with pytest.raises(UserError, match="holds no conversation"):
        PROMPTS.test_function(STEP, ())


def test_recorded_responses_are_read_as_they_stand_and_what_is_missing_fails(numpy_pool, tmp_path):
    responses = ("```python\nassert f(0) == 0\n```", "```python\nassert f(1) == 0\n```", "assert f(0) == 0")
    recorded = RecordedPlayer(tests_of={STEP.id: responses})
    found = evaluate_conversations([STEP], [STEP], recorded, numpy_pool, Journal(tmp_path / "out", {}), silent)
    assert found["benchmarks"]["tests"]["pass_at_5"]["value"] == 20


def test_a_function_that_cannot_be_mutated_does_not_enter_and_costs_no_other_its_mutants(numpy_pool):
    nested = f"def f(x):\n    return {'not ' * 900}x"
    problem = function("f", nested)
    (result,) = score({problem: ["def test_t(): pass"]}, [problem], numpy_pool, silent)
    assert (result.passed, result.mutants) == (1, 0)
    long = "def f(x):\n" + "".join(f"    if x == {i}:\n        return {i}\n" for i in range(3_000))
    deep, short, many = make_mutants([nested, "x = 1", long])
    assert isinstance(deep, str) and deep.startswith("cosmic-ray cannot mutate it: RecursionError: ")
    assert short == mutate("x = 1")
    assert isinstance(many, str) and f"mutants of {len(long)} characters each are too many" in many
