"""Whole rounds of the game with scripted models and the real judge; all figures are computed by hand."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from game_config import game_config
from own_rows import RowFiles
from scripted import PROMPTS, requests_of, scripted_game

import data_pipeline
from codea1_jax.config import Config, MethodConfig, RewardConfig, RolloutConfig, TrainConfig
from codea1_jax.game import export
from codea1_jax.game.rollouts import Page, QuestionRollout
from codea1_jax.game.round import play_round
from data_pipeline import Problem
from data_pipeline.responses import program_in
from sandbox import Execution, Job, Judge, Limits, ReferenceCache, SandboxError, SandboxPool, Test

LIMITS = Limits(call_seconds=0.2, load_seconds=0.8, program_seconds=4, memory_mb=256)
PAPER = game_config(RolloutConfig(samples=4, suites=2))
GCD, SEARCH, SECOND = QUESTIONS = ("Own_1", "Own_2", "Own_3")


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=2, limits=LIMITS) as pool:
        yield pool


# --- questions of a dataset, hostile answers ------------------------------------------------------------------


@pytest.fixture(scope="module")
def rounds(own_row_files: RowFiles, pool: SandboxPool) -> list[dict[str, QuestionRollout]]:
    """Both rounds of the script; the second is played with the book that the first one left."""
    loaded = data_pipeline.load(str(own_row_files.kodcode))
    asked = {problem.id: problem for problem in loaded.problems if problem.id in QUESTIONS}
    script = yaml.safe_load(Path(__file__).with_name("scripted_responses.yaml").read_text())
    played: list[dict[str, QuestionRollout]] = []
    book: dict[str, Page] = {}
    for step, said in enumerate(script):
        problems = [asked[name] for name in said]
        game = scripted_game(
            pool,
            {asked[name].question: [line["program"] for line in lines] for name, lines in said.items()},
            {
                (asked[name].question, program_in(line["program"], asked[name].entry_point)): line["suites"]
                for name, lines in said.items()
                for line in lines
            },
            PAPER,
        )
        round_ = play_round(game, problems, book, (step,))
        book |= {q.problem.id: q.page_after for q in round_.questions}
        played.append({q.problem.id: q for q in round_.questions})
    return played


def rewards(question: QuestionRollout) -> list[float]:
    return [program.reward for program in question.programs]


def advantages(question: QuestionRollout) -> list[float]:
    return [program.advantage for program in question.programs]


def valid(question: QuestionRollout) -> list[bool]:
    return [program.valid for program in question.programs]


def counts(question: QuestionRollout) -> list[list[tuple[int, int]]]:
    """Of every suite: kept and invalid."""
    return [[(len(s.validated.kept), s.validated.invalid) for s in p.suites] for p in question.programs]


def suite_figures(question: QuestionRollout) -> list[list[tuple[float, float, float]]]:
    """Of every suite: validity, adversarial, reward."""
    return [[(s.reward.validity, s.reward.adversarial, s.reward.reward) for s in p.suites] for p in question.programs]


def verdicts(question: QuestionRollout, program: int) -> list[str]:
    """Of one program on its own suites, one line a suite."""
    return [", ".join(verdict.status for verdict in suite.verdicts) for suite in question.programs[program].suites]


def book_verdicts(question: QuestionRollout) -> list[str]:
    return [", ".join(verdict.status for verdict in program.book) for program in question.programs]


def selected(question: QuestionRollout) -> list[int]:
    return [i for i, program in enumerate(question.programs) if all(suite.trained_on for suite in program.suites)]


def page(tests: Mapping[tuple[str, str], int]) -> list[tuple[tuple[str, str], int]]:
    """In order: a page's order is part of it."""
    return list(tests.items())


def written(page: Page) -> list[tuple[tuple[str, str], int]]:
    """A page's tests as call and expected value."""
    return [((test.call, test.expected), count) for test, count in page.items()]


def test_a_right_a_wrong_a_leaving_and_a_broken_program(rounds):
    question = rounds[0][GCD]
    assert valid(question) == [True, True, True, False]
    assert counts(question) == [[(2, 0), (2, 2)], [(2, 0), (3, 1)], [(1, 0), (0, 0)], [(1, 0), (0, 0)]]
    assert verdicts(question, 0) == ["passed, passed", "passed, passed"]
    assert verdicts(question, 1) == ["failed, passed", "failed, failed, failed"]
    assert verdicts(question, 2) == ["crashed", ""]
    assert verdicts(question, 3) == ["raised", ""]
    # val = min(kept/8, 1 - invalid/8); no book yet, so adv = failing/8; reward = (val + adv)/2, of a valid program
    assert suite_figures(question) == [
        [(2 / 8, 0, 2 / 16), (2 / 8, 0, 2 / 16)],
        [(2 / 8, 1 / 8, 3 / 16), (3 / 8, 3 / 8, 6 / 16)],
        [(1 / 8, 1 / 8, 2 / 16), (0, 0, 0)],
        [(1 / 8, 1 / 8, 0), (0, 0, 0)],  # does not execute
    ]
    assert selected(question) == [1]  # spreads 0, 3/32, 2/32, 0
    # (1 + 1)/2, (1/2 + 0/3)/2, (0/1 + nothing)/2, 0; in quarters 4, 1, 0, 0: mean 5/4,
    # deviations 11/4, -1/4, -5/4, -5/4, squares (121 + 1 + 25 + 25)/16 = 172/16, over 3: std = sqrt(172/48) = 1.892969
    assert rewards(question) == [1, 1 / 4, 0, 0]
    assert advantages(question) == pytest.approx([1.452745, -0.132068, -0.660339, -0.660339], abs=1e-5)
    # two different rewards: (d/2)/(d/sqrt 2) = 0.707107
    assert [s.advantage for s in question.programs[1].suites] == pytest.approx([-0.707107, 0.707107], abs=1e-5)
    assert [s.advantage for s in question.programs[0].suites] == [0, 0]
    # the import error's failures do not count
    assert written(question.page_after) == page(
        {("gcd(4, 6)", "2"): 2, ("gcd(6, 9)", "3"): 1, ("gcd(10, 4)", "2"): 1, ("gcd(2, 2)", "2"): 1}
    )


def test_an_always_equal_object_an_endless_loop_and_a_malformed_response(rounds):
    question = rounds[0][SEARCH]
    assert valid(question) == [True, True, True, False]
    assert counts(question) == [[(2, 0), (1, 0)], [(1, 0), (2, 1)], [(3, 0), (1, 0)], [(1, 0), (0, 0)]]
    assert verdicts(question, 0) == ["passed, passed", "passed"]
    assert verdicts(question, 1) == ["not plain data", "not plain data, not plain data"]
    assert verdicts(question, 2) == ["passed, timed out, passed", "raised"]  # one bad call costs one test
    assert suite_figures(question) == [
        [(2 / 8, 0, 2 / 16), (1 / 8, 0, 1 / 16)],
        [(1 / 8, 1 / 8, 2 / 16), (2 / 8, 2 / 8, 4 / 16)],
        [(3 / 8, 1 / 8, 4 / 16), (1 / 8, 1 / 8, 2 / 16)],
        [(1 / 8, 1 / 8, 0), (0, 0, 0)],
    ]
    rejected = question.programs[1].suites[1].suite.rejected
    assert [test.text for test in rejected] == ["assert binary_search([5], 3) == unknown_name"]
    assert selected(question) == [1]  # spreads 1/32, 2/32, 2/32, 0: the tie goes to the lower index
    # 1, 0, (2/3 + 0)/2, 0: mean 1/3, deviations 2/3, -1/3, 0, -1/3, squares 6/9, over 3: std = sqrt(2)/3
    assert rewards(question) == pytest.approx([1, 0, 1 / 3, 0])
    assert advantages(question) == pytest.approx([1.414214, -0.707107, 0, -0.707107], abs=1e-5)
    assert written(question.page_after) == page(
        {
            ("binary_search([5], 5)", "0"): 1,
            ("binary_search([5], 4)", "-1"): 1,  # the suite said False; the reference's answer is kept
            ("binary_search([1, 3], 3)", "1"): 1,
            ("binary_search([1, 3], 2)", "-1"): 1,
            ("binary_search([], 1)", "-1"): 1,
        }
    )


def test_a_suite_longer_than_asked_for_and_a_call_that_the_reference_cannot_answer(rounds):
    question = rounds[0][SECOND]
    assert valid(question) == [True] * 4
    assert counts(question) == [[(9, 3), (1, 0)], [(2, 0), (1, 0)], [(1, 0), (0, 1)], [(1, 0), (1, 0)]]
    assert verdicts(question, 0)[0] == "passed, passed, raised, raised, raised, passed, passed, passed, raised"
    assert verdicts(question, 1) == ["passed, failed", "failed"]
    assert verdicts(question, 2) == ["out of memory", ""]
    assert verdicts(question, 3) == ["passed", "passed"]
    assert suite_figures(question) == [
        [(5 / 8, 3 / 8, 8 / 16), (1 / 8, 0, 1 / 16)],  # of the 9 kept only the first 8 count as failing
        [(2 / 8, 1 / 8, 3 / 16), (1 / 8, 1 / 8, 2 / 16)],
        [(1 / 8, 1 / 8, 2 / 16), (0, 0, 0)],
        [(1 / 8, 0, 1 / 16), (1 / 8, 0, 1 / 16)],
    ]
    assert selected(question) == [0]  # spreads 7/32, 1/32, 2/32, 0
    # (5/9 + 1)/2, (1/2 + 0)/2, 0, 1; in 36ths 28, 9, 0, 36: mean 73/4, deviations 39/4, -37/4, -73/4, 71/4,
    # squares (1521 + 1369 + 5329 + 5041)/16 = 13260/16, over 3: std = sqrt(4420/16) = 16.620770
    assert rewards(question) == pytest.approx([28 / 36, 9 / 36, 0, 1])
    assert advantages(question) == pytest.approx([0.586615, -0.556533, -1.098024, 1.067941], abs=1e-5)
    assert written(question.page_after) == page(
        {
            ("second_maximum([])", "None"): 1,
            ("second_maximum([5])", "None"): 1,
            ("second_maximum([2, 2])", "None"): 1,
            ("second_maximum([7, 7])", "None"): 1,
            ("second_maximum([2, 1])", "1"): 1,
            ("second_maximum([True, 2])", "1"): 1,
            ("second_maximum([9, 8])", "8"): 1,
        }
    )


def test_the_second_round_faces_the_mistakes_of_the_first(rounds):
    question = rounds[1][GCD]
    assert [test.call for test in question.retrieved] == ["gcd(4, 6)", "gcd(6, 9)", "gcd(10, 4)", "gcd(2, 2)"]
    assert valid(question) == [True, True, True, False]
    assert book_verdicts(question) == [
        "passed, passed, passed, passed",
        "failed, failed, failed, passed",
        "failed, failed, failed, failed",  # it found no answer in its process
        "timed out, timed out, timed out, timed out",
    ]
    assert counts(question) == [[(1, 0), (1, 0)], [(1, 0), (0, 0)], [(1, 0), (2, 0)], [(1, 0), (1, 0)]]
    assert not question.programs[0].suites[1].response.completion.finished  # the cut keeps what stands before it
    assert len(question.programs[1].suites[1].suite.rejected) == 2
    # adv = (failing/8 - failing book tests/4 + 1)/2 where tests were kept
    assert suite_figures(question) == [
        [(1 / 8, 1 / 2, 5 / 16), (1 / 8, 1 / 2, 5 / 16)],
        [(1 / 8, 3 / 16, 5 / 32), (0, 0, 0)],  # (1/8 - 3/4 + 1)/2
        [(1 / 8, 0, 1 / 16), (2 / 8, 1 / 16, 5 / 32)],  # (0 - 1 + 1)/2; (1/8 - 1 + 1)/2
        [(1 / 8, 1 / 16, 0), (1 / 8, 1 / 16, -2 / 64)],  # not valid; 2 of the 64 characters are not ASCII
    ]
    assert selected(question) == [1]  # spreads 0, 5/64, 3/64, 1/64
    # 1; ((1/4 + 0)/2 + 1/4)/2; ((0 + 1)/2 + (0 + 1/2)/2)/2; 0. In 16ths 16, 3, 6, 0: mean 25/4,
    # deviations 39/4, -13/4, -1/4, -25/4, squares (1521 + 169 + 1 + 625)/16 = 2316/16, over 3:
    # std = sqrt(772/16) = 6.946222
    assert rewards(question) == [1, 3 / 16, 6 / 16, 0]
    assert advantages(question) == pytest.approx([1.403641, -0.467880, -0.035991, -0.899769], abs=1e-5)
    # gcd(4, 6): 2, less 1 for the right program, plus 1; the other three are removed, and gcd(6, 9) comes back
    assert written(question.page_after) == page({("gcd(4, 6)", "2"): 2, ("gcd(6, 9)", "3"): 1})


def test_where_no_suite_has_a_test_the_book_alone_rewards(rounds):
    question = rounds[1][SEARCH]
    assert valid(question) == [True, True, True, False]
    assert book_verdicts(question)[2] == "failed, passed, failed, passed, passed"
    assert suite_figures(question) == [[(0, 0, 0)] * 2] * 4
    assert selected(question) == [0]  # all spreads are 0
    # in fifths 5, 5, 3, 0: mean 13/4, deviations 7/4, 7/4, -1/4, -13/4, squares (49 + 49 + 1 + 169)/16 = 268/16,
    # over 3: std = sqrt(268/48) = 2.362908
    assert rewards(question) == [1, 1, 3 / 5, 0]
    assert advantages(question) == pytest.approx([0.740613, 0.740613, -0.105802, -1.375424], abs=1e-5)
    assert question.page_after == {}


def test_what_a_round_did_with_the_book_is_counted(rounds):
    first, second = (export.book_metrics(list(played.values())) for played in rounds)
    # pages of 4, 5 and 7 tests begin
    assert first == {"book/added": 16.0, "book/removed": 0.0}  # no page held a test yet, so none could be passed
    # programs that execute, passed of faced: gcd 4 + 1 + 0 of 12, search 5 + 5 + 3 of 15; the pages lose 2 and 5 tests
    shares = {"book/pass_rate": pytest.approx(18 / 27), "book/relapse": pytest.approx(3 / 6)}
    assert second == {**shares, "book/added": 0.0, "book/removed": 7.0}


def test_what_each_model_learns_from_and_what_is_told_of_the_round(rounds):
    questions = [rounds[0][name] for name in QUESTIONS]
    assert [len(group) for group in export.code_groups(questions)] == [4, 4, 4]
    assert [[t.advantage for t in group] for group in export.test_groups(questions)] == [
        [s.advantage for s in q.programs[i].suites] for q, i in zip(questions, [1, 1, 0], strict=True)
    ]
    learned = [t for group in [*export.code_groups(questions), *export.test_groups(questions)] for t in group]
    assert all(len(t.logprobs) == len(t.completion) for t in learned)
    figures = export.round_metrics(questions, with_tests=True)
    assert figures["code/reward"] == pytest.approx((5 / 4 + 4 / 3 + 73 / 36) / 12)
    assert figures["code/valid"] == 10 / 12
    # kept tests of valid programs, passed of all: gcd 5 of 10, search 5 of 10, second 9 of 16
    assert figures["pass_rate"] == pytest.approx(19 / 36)
    # in 16ths: gcd 2 + 2 + 3 + 6 + 2, search 2 + 1 + 2 + 4 + 4 + 2, second 8 + 1 + 3 + 2 + 2 + 1 + 1; 24 suites
    assert figures["test/reward"] == pytest.approx((15 + 15 + 18) / 16 / 24)
    assert export.round_metrics(questions, with_tests=False).keys() == {"code/reward", "code/valid"}
    suite = export.question_record(1, questions[0], {"code": str, "test": str})["programs"][1]["suites"][0]
    assert suite["tests"][0] == {"call": "gcd(4, 6)", "expected": "2", "verdict": "failed", "returned": "4"}
    assert suite["trained"]


# --- departures and borders, on one small question --------------------------------------------------

SMALL = Problem("small", "Write f(x): return x + 1.", "def f(x):\n    return x + 1", "f", ())
RIGHT, WRONG = "def f(x): return x + 1", "def f(x): return 1"
EASY, HARD = "assert f(0) == 1", "assert f(0) == 1\nassert f(4) == 5"


def play(
    pool: Judge,
    said: Sequence[str],
    suites: Mapping[str, Sequence[str]],
    book: Page | None = None,
    *,
    rules: Config = PAPER,
    share_programs: bool = False,
    longest_prompt: int = 10_000,
) -> tuple[QuestionRollout, int]:
    """A round of the small question, and how many programs the Test LLM was shown."""
    rollout = RolloutConfig(samples=len(said), suites=2, share_programs=share_programs)
    config = rules.model_copy(update={"rollout": rollout})
    shown = {(SMALL.question, program): written for program, written in suites.items()}
    game = scripted_game(pool, {SMALL.question: said}, shown, config, longest_prompt)
    round_ = play_round(game, [SMALL], {"small": book or {}}, (0,))
    return round_.questions[0], len(requests_of(game.test))


def test_twins_share_one_set_of_suites_and_only_the_first_stands_for_election(pool):
    said, suites = [RIGHT, WRONG, WRONG, RIGHT], {RIGHT: [EASY, EASY], WRONG: [EASY, HARD]}
    alone, shown_alone = play(pool, said, suites)
    shared, shown_shared = play(pool, said, suites, share_programs=True)
    assert (shown_alone, shown_shared) == (4, 2)
    assert rewards(shared) == rewards(alone) == [1, 3 / 4, 3 / 4, 1]  # (1 + 1/2)/2
    assert [[s.response.text for s in p.suites] for p in shared.programs] == [
        [EASY] * 2,
        [EASY, HARD],
        [EASY, HARD],
        [EASY] * 2,
    ]
    assert selected(shared) == [1]
    two = game_config(train=TrainConfig(update_n=2))
    assert selected(play(pool, said, suites, share_programs=True, rules=two)[0]) == [0, 1]
    assert selected(play(pool, said, suites, rules=two)[0]) == [1, 2]


def test_pooled_tests_score_a_program_on_the_valid_tests_of_all_its_siblings(pool):
    suites = {RIGHT: ["assert f(1) == 2\nassert f(2) == 0", EASY], WRONG: [EASY, HARD]}
    own, _ = play(pool, [RIGHT, WRONG], suites)
    pooled, _ = play(pool, [RIGHT, WRONG], suites, rules=game_config(rewards=RewardConfig(pool_tests=True)))
    assert rewards(own) == [1, 3 / 4]
    # the distinct kept tests are f(1), f(2), f(0), f(4); the wrong program passes f(0)
    assert rewards(pooled) == [1, 1 / 4]
    right, wrong = export.question_record(1, pooled, {"code": str, "test": str})["programs"]
    assert [test["call"] for test in wrong["failed_of_siblings"]] == ["f(1)", "f(2)"]  # f(4) is its own suite's
    assert right["suites"][0]["tests"][1] == {"call": "f(2)", "expected": "3", "verdict": "passed", "stated": "0"}
    assert suite_figures(pooled) == suite_figures(own)  # suites are rewarded for their own program alone
    assert pooled.page_after == own.page_after


def test_a_program_too_long_to_be_shown_gets_no_suites_and_is_scored_by_the_book(pool):
    long = f"{WRONG}  # {'very ' * 50}"
    fits = max(len(PROMPTS.test(SMALL, program)) for program in (RIGHT, WRONG))
    book = {Test("f(0)", "1"): 3, Test("f(9)", "10"): 1}
    question, shown = play(pool, [RIGHT, long], {RIGHT: [EASY, HARD]}, book, longest_prompt=fits)
    assert shown == 1
    assert question.programs[1].suites == ()
    assert rewards(question) == [1, 1 / 2]
    assert [i for i, p in enumerate(question.programs) if any(s.trained_on for s in p.suites)] == [0]
    everyone, shown = play(pool, [long, long], {}, longest_prompt=fits)
    assert (shown, rewards(everyone), export.test_groups([everyone])) == (0, [0, 0], [[]])


def test_a_black_box_test_prompt_shows_the_question_alone(pool):
    blind, shown = play(
        pool, [RIGHT, WRONG], {"": [EASY, HARD]}, rules=game_config(method=MethodConfig(white_box=False))
    )
    assert shown == 2
    assert {s.response.prompt for p in blind.programs for s in p.suites} == {PROMPTS.test(SMALL, None)}
    assert rewards(blind) == [1, 3 / 4]


def test_without_answer_prediction_the_reference_fills_in_the_answers(pool):
    suites = {RIGHT: ["f(0)\nf(4)"] * 2, WRONG: ["f(0)\nassert f(4) == 99", "f(4)\nf(4)"]}
    filled_in = game_config(method=MethodConfig(answer_prediction=False))
    question, _ = play(pool, [RIGHT, WRONG], suites, rules=filled_in)
    assert counts(question) == [[(2, 0), (2, 0)], [(2, 0), (1, 1)]]  # a repeated call is invalid all the same
    kept = question.programs[1].suites[0].validated.kept
    assert [(test.call, test.expected) for test in kept] == [("f(0)", "1"), ("f(4)", "5")]
    assert rewards(question) == [1, 1 / 4]  # (1/2 + 0)/2


SIXTEEN = range(8), range(8, 16)
SLOW = "def f(x):\n    for _ in range(3 * 10**6): pass\n    return x + 1"


def test_one_suites_slow_tests_cost_no_other_suite_whoever_answers_them():
    """The reference as a candidate passes every test that holds, though all of them take more than a program may."""
    limits = Limits(call_seconds=1, load_seconds=0.2, program_seconds=0.3, memory_mb=256)
    suites = [
        "\n".join(f"assert f({x}) == {x + 1} + 0 * sum(map(sum, [range(10**5)] * 100))" for x in half)
        for half in SIXTEEN
    ]
    with SandboxPool(workers=1, limits=limits) as own:
        shown = {(SMALL.question, SLOW): suites}
        game = scripted_game(own, {SMALL.question: [SLOW] * 2}, shown, game_config())
        [question] = play_round(game, [replace(SMALL, solution=SLOW)], {}, (0,)).questions
    assert counts(question) == [[(8, 0)] * 2] * 2
    assert rewards(question) == [1, 1]


def test_what_a_reference_has_answered_is_remembered_however_much_it_is_asked():
    """Of K = 8 tests that were asked for, 2K are read."""
    found = []
    with ReferenceCache(SandboxPool(workers=1, limits=LIMITS)) as own:
        for count in (15, 16, 60):
            suite = "\n".join(f"assert f({x}) == {x + 1}" for x in range(count))
            question, _ = play(own, [RIGHT, WRONG], {RIGHT: [suite] * 2, WRONG: [suite] * 2})
            found.append((own.misses, own.hits, counts(question)))
    assert found == [(15, 0, [[(15, 0)] * 2] * 2), (16, 15, [[(16, 0)] * 2] * 2), (16, 31, [[(16, 0)] * 2] * 2)]


def test_an_outage_of_the_judge_is_an_error_and_never_a_reward(pool, monkeypatch):
    work = pool.submit

    def breaks_at_the_wrong_program(job: Job) -> Future[Execution]:
        if job.program != WRONG:
            return work(job)
        broken: Future[Execution] = Future()
        broken.set_exception(SandboxError("the jail is gone"))
        return broken

    monkeypatch.setattr(pool, "submit", breaks_at_the_wrong_program)
    with pytest.raises(SandboxError, match="the jail is gone"):
        play(pool, [RIGHT, WRONG], {RIGHT: [EASY, HARD], WRONG: [EASY, HARD]})
