"""Of several programs the one that passes most generated tests is taken, and static suites become golden tests."""

from scripted import silent

from codea1_jax.evals.collaboration import evaluate_collaboration, submit_tests
from codea1_jax.evals.journal import Journal
from codea1_jax.evals.samples import RecordedPlayer
from codea1_jax.evals.suites import write_dataset
from codea1_jax.game.players import TextPlayer
from codea1_jax.game.suites import extract_suite
from data_pipeline import Problem, load
from data_pipeline.benchmark import make_benchmark

DOUBLE = Problem("double", "Twice x.", "def f(x):\n    return 2 * x", "f", ("assert f(3) == 6",), source="problems")
NEGATE = Problem("negate", "Minus x.", "def f(x):\n    return -x", "f", ("assert f(3) == -3",), source="problems")
PROGRAMS = {
    "double": ("def f(x): return x", "def f(x): return x + x", "def f(x): return x", "def f(x): return x * 2"),
    "negate": ("def f(x): return 0", "def f(x): return -x", "def f(", "def f(x): return x"),
}


def test_programs_pass_tests_by_the_stated_answers(pool):
    tests = extract_suite("assert f(1) == 2\nassert f(0) == 0\nassert f(1) == 1", "f").tests
    same, *_, twice = PROGRAMS["double"]
    passed = submit_tests(pool, DOUBLE, PROGRAMS["double"], tests)()
    assert (passed[same], passed[twice]) == ((False, True, True), (True, True, False))
    assert set(submit_tests(pool, NEGATE, PROGRAMS["negate"], [])().values()) == {()}


def test_collaboration_shows_each_different_program_once_and_is_resumed(pool, tmp_path):
    shown = []

    def respond(requests):
        shown.extend((request.problem.id, request.program) for request in requests)
        right = {"double": "assert f(2) == 4", "negate": "assert f(1) == 0"}  # the latter is wrong
        yield from ((i, (right[request.problem.id],)) for i, request in enumerate(requests))

    def run():
        journal = Journal(tmp_path / "out", {})
        benchmark = make_benchmark([DOUBLE, NEGATE], pool)
        return evaluate_collaboration(
            benchmark, RecordedPlayer(PROGRAMS), TextPlayer(respond), 4, pool, journal, silent
        )

    found = run()["benchmarks"]["problems"]
    assert sorted(shown) == sorted({(name, p) for name, programs in PROGRAMS.items() for p in programs})
    assert (found["avg_at_n"]["value"], found["best_of_n"]["value"]) == (37.5, 50)
    assert found["pass_at_4"]["value"] == 100
    # The first program of each is wrong; of two, `double`'s second is chosen, `negate`'s first passes the wrong test.
    assert [found[f"best_of_{k}"]["value"] for k in (1, 2, 4)] == [0, 50, 50] and "best_of_8" not in found
    shown.clear()
    assert run()["benchmarks"]["problems"] == found
    assert shown == []


def test_static_suites_are_golden_tests_that_hold_and_a_source_to_train_on(pool, tmp_path):
    written = {
        "double": ("assert f(4) == 8\nassert f(4) == 9", "assert f(4) == 8\nassert f(0) == 0"),
        "negate": ("assert f(1) == 1", "nothing"),
    }

    def respond(requests):
        assert {request.samples for request in requests} == {2}
        yield from ((i, written[request.problem.id]) for i, request in enumerate(requests))

    journal = Journal(tmp_path / "out", {})
    results = write_dataset([DOUBLE, NEGATE], TextPlayer(respond), 2, pool, journal, silent)
    assert results["benchmarks"]["static suites"] == {"problems": 1, "tests": 2, "wrong": 2}
    assert results["without_samples"] == ["negate"]
    (problem,) = load(str(tmp_path / "out" / "problems.jsonl")).problems
    assert problem.golden_tests == ("assert f(4) == 8", "assert f(0) == 0")
    assert (problem.question, problem.solution) == (DOUBLE.question, DOUBLE.solution)
