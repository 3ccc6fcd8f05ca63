"""A round on programs that read standard input: asked, read, judged, rewarded and remembered as functions are."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from game_config import game_config
from scripted import PROMPTS, TOKENIZER, Scripted

from codea1_jax.config import MethodConfig, RewardConfig, RolloutConfig
from codea1_jax.config.prompts import BUILT_IN_TEMPLATES
from codea1_jax.game.judging import book_tests, submit_calls
from codea1_jax.game.players import PolicyPlayer
from codea1_jax.game.prompts import chat_prompts
from codea1_jax.game.round import Game, play_round
from codea1_jax.game.suites import SuiteRules
from codea1_jax.game.tasks import stream
from codea1_jax.game.tasks import test_messages as messages_for_tests
from data_pipeline import Problem
from data_pipeline.benchmark import make_benchmark
from data_pipeline.golden import spelled, stream_line
from data_pipeline.validate import failures
from data_pipeline.verdicts import own_tests, submit_program
from sandbox import Limits, SandboxError, SandboxPool, Status, SuiteTest, Task, Test
from sandbox.streams import encode_output, input_identity

RIGHT = "n = int(input())\nprint(sum(map(int, input().split())))\n"
WRONG = "n = int(input())\nprint(sum(map(int, input().split()[:-1])))\n"  # forgets the last number
PROBLEM = Problem("sum", "Read n, then n numbers. Print their sum.", RIGHT, "", (), task=Task.STREAM)


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=1, limits=Limits(load_seconds=0.5, call_seconds=0.5, program_seconds=1.0)) as pool:
        yield pool


EASY_PAIR, SPACED_PAIR = ("2\n1 2", "3"), ("1\n7  \n\n", "7")


def blocks(*pairs):
    return "\n".join(f"```input\n{given}\n```\n```output\n{stated}\n```" for given, stated in pairs)


def test_a_pair_of_blocks_is_a_test_and_nothing_else_is():
    response = f"""Some tests.
{blocks(EASY_PAIR)}
and one whose output is missing
```input
1
5
```
```python
print(1)
```
```output
9
```
{blocks(SPACED_PAIR)}"""
    suite = stream.read_suite(response, PROBLEM, "commonmark", SuiteRules())
    assert suite.tests == (SuiteTest("2\n1 2\n", "3\n"), SuiteTest("1\n7  \n\n\n", "7\n"))
    assert [(each.text, each.reason) for each in suite.rejected] == [("1\n5\n", "an input without an output")]
    assert suite.invalid == 0
    assert stream.read_suite(response, PROBLEM, "commonmark", SuiteRules(junk_counts=True)).invalid == 1
    assert stream.read_suite(response, PROBLEM, "commonmark", SuiteRules(most=1)).tests == suite.tests[:1]
    inputs = stream.read_suite(response, PROBLEM, "commonmark", SuiteRules(answers=False)).tests
    assert [test.call for test in inputs] == ["2\n1 2\n", "1\n5\n", "1\n7  \n\n\n"]


@pytest.mark.parametrize("given", ["2\n1 2\n", "\n", "  indented\n\tx \n\n"])
def test_a_test_is_read_as_it_was_spelled(given):
    test = SuiteTest(given, "3\n")
    assert stream.suite_in(spelled(test, PROBLEM), PROBLEM).tests == (test,)


@pytest.mark.parametrize(
    ("response", "program"),
    [
        ("```python\nprint(1)\n```", "print(1)\n"),
        (
            "First\n```python\nprint(1)\n```\nor better\n```python\nprint(2)\n```\nRun it:\n```\n$ python a.py\n```",
            "print(2)\n",
        ),
        ("```\nprint(3)\n```", "print(3)\n"),
        ("print(4)", "print(4)"),
        ("```python\nprint(5\n```", "print(5\n"),
    ],
)
def test_the_program_is_the_last_block_that_parses(response, program):
    assert stream.read_program(response, PROBLEM, "commonmark") == program


def test_chat_prompts_state_the_form_in_which_suites_are_read():
    problem = replace(PROBLEM, description="The sum.")
    _, user = messages_for_tests(problem, WRONG, 5, BUILT_IN_TEMPLATES)
    assert "5 different tests" in user["content"] and WRONG.strip() in user["content"]
    assert "The sum." in user["content"] and "assert" not in user["content"]
    (shown,) = stream.suite_in(user["content"].partition("# Format")[2], PROBLEM).tests
    assert shown == SuiteTest("standard input\n", "standard output\n")
    assert "input" in chat_asks(PROBLEM) and "entry" not in chat_asks(PROBLEM)
    calls = messages_for_tests(PROBLEM, None, 5, BUILT_IN_TEMPLATES, answers=False)[-1]
    assert "```output" not in calls["content"] and "Program" not in calls["content"].partition("# Format")[0]


def chat_asks(problem):
    return TOKENIZER.decode(chat_prompts(TOKENIZER, 8).code(problem))


def play(judge, programs, suites, book=None, *, problem=PROBLEM, size=2, **rules):
    rules["rollout"] = RolloutConfig(samples=len(programs), suites=2)
    code = Scripted({PROMPTS.code(problem): programs})
    test = Scripted({PROMPTS.test(problem, program): said for program, said in suites.items()})
    players = (PolicyPlayer(sample, PROMPTS, TOKENIZER.decode) for sample in (code, test))
    game = Game(*players, judge, game_config(rewards=RewardConfig(suite_size=size), **rules), PROMPTS)
    (question,) = play_round(game, [problem], {} if book is None else {problem.id: book}, (1,)).questions
    return question


EASY = blocks(("1\n0", "0"), ("2\n3 0", "3"))  # both programs pass
HARD = blocks(("2\n3 4", "7"), ("1\n5", "5"))  # the wrong one fails
LYING = blocks(("1\n1", "2"), ("1\n+01", "1"))  # a wrong answer, and the same input again


def test_a_round_judges_rewards_and_remembers_as_for_functions(pool):
    question = play(pool, [RIGHT, WRONG], {RIGHT: [EASY, LYING], WRONG: [EASY, HARD]})
    right, wrong = question.programs
    # R_C: right passes all kept tests of both suites; wrong all of the easy suite and none of the hard one
    assert (right.reward, wrong.reward) == (1.0, 0.5)
    # alpha = 1/2: val = 1 without kills, and val = 1 with adv = 1. Lying: one kept of two, and two invalid
    assert [suite.reward.reward for suite in wrong.suites] == [0.5, 1.0]
    assert (right.suites[1].validated.invalid, len(right.suites[1].validated.kept)) == (2, 1)
    failed = {
        Test(given, encode_output(out), f"{input_identity(given)} {encode_output(out)} ", PROBLEM.tolerance)
        for given, out in (("2\n3 4\n", "7"), ("1\n5\n", "5"))
    }
    assert set(question.page_after) == failed
    again = play(pool, [WRONG, RIGHT], {WRONG: [EASY, EASY], RIGHT: [EASY, EASY]}, book=question.page_after)
    assert [program.reward for program in again.programs] == [0.5, 1.0]


def test_a_step_over_both_kinds_judges_each_as_what_it_is(pool):
    """`g` returns what the stream prints: the same bug, tests and rewards."""
    right, wrong = ("def g(n, xs):\n    return sum(xs)", "def g(n, xs):\n    return sum(xs[:-1])")
    function = Problem("g", "Write g(n, xs): return the sum of xs.", right, "g", ())
    easy, hard = "assert g(1, [0]) == 0\nassert g(2, [3, 0]) == 3", "assert g(2, [3, 4]) == 7\nassert g(1, [5]) == 5"
    code = Scripted({PROMPTS.code(PROBLEM): [RIGHT, WRONG], PROMPTS.code(function): [right, wrong]})
    suites = {PROMPTS.test(PROBLEM, program): [EASY, HARD] for program in (RIGHT, WRONG)}
    suites |= {PROMPTS.test(function, program): [easy, hard] for program in (right, wrong)}
    players = (PolicyPlayer(sample, PROMPTS, TOKENIZER.decode) for sample in (code, Scripted(suites)))
    rules = game_config(rewards=RewardConfig(suite_size=2))
    mixed = [PROBLEM, function, replace(PROBLEM, id="again"), replace(function, id="g again")]
    for question in play_round(Game(*players, pool, rules, PROMPTS), mixed, {}, (1,)).questions:
        assert [program.reward for program in question.programs] == [1.0, 0.5]
        assert [suite.reward.reward for suite in question.programs[1].suites] == [0.5, 1.0]
        assert len(question.page_after) == 2


def test_without_answers_the_reference_states_them(pool):
    inputs = "```input\n2\n3 4\n```\n```input\n1\n5\n```"
    question = play(pool, [WRONG] * 2, {WRONG: [inputs, inputs]}, method=MethodConfig(answer_prediction=False))
    assert [suite.reward.reward for suite in question.programs[0].suites] == [1.0, 1.0]


def test_golden_tests_of_a_stream_judge_as_those_of_functions(pool):
    problem = replace(PROBLEM, golden_tests=(stream_line("2\n1 2", "3\n"), stream_line("1\n4", "4")))
    code = Scripted({PROMPTS.code(problem): [RIGHT, WRONG, "print(3", "import sys\nsys.exit(3)"]})
    game = Game(
        PolicyPlayer(code, PROMPTS, TOKENIZER.decode), None, pool, game_config(RolloutConfig(samples=4)), PROMPTS
    )
    (question,) = play_round(game, [problem], {}, (1,)).questions
    assert [program.reward for program in question.programs] == [1.0, 0.0, 0.0, 0.0]
    assert [program.valid for program in question.programs] == [True, True, False, True]


@pytest.mark.parametrize(
    ("given", "is_allowed"),
    [
        ("4\n1 2 3 4\n", True),
        ("1\n5", True),
        ("2\n\n1 2\n", False),  # an empty line
        ("2\n1\t2\n", False),
        ("2\n1  2\n", False),
        ("2 \n1 2\n", False),
        ("0\n\n", True),  # no numbers, in their line
        ("2 1 2\n", False),  # all on one line
        ("2 1\n2\n", False),  # other words in the first line
        ("2\n1\n2\n", False),  # another number of lines
    ],
)
def test_an_input_is_laid_out_as_the_golden_ones_are(given, is_allowed):
    golden = tuple(stream_line(each, "?") for each in ("2\n1 2\n", "3\n4 5 6\n", "1\n9\n"))
    assert stream.is_allowed(replace(PROBLEM, golden_tests=golden), given) is is_allowed
    assert stream.is_allowed(PROBLEM, given)  # which states no layout


def test_golden_inputs_that_differ_in_layout_allow_what_each_has():
    golden = tuple(stream_line(each, "?") for each in ("1 2\n", "3\n\n4 5\n", "7\t8\n9\n"))
    problem = replace(PROBLEM, golden_tests=golden)
    assert all(stream.is_allowed(problem, given) for given in ("5\n", "1\t2\n\n3\n", "1 2 3\n4\n5\n6\n"))


# --- checkers --------------------------------------------------------------------------------------------------

CHECKER = """
def check(given, output, expected):
    n, pair = int(given), [int(token) for token in output.split()]
    return len(pair) == 2 and sum(pair) == n and min(pair) >= 0
"""
QUESTION = "Two numbers that are not negative and add up to n."
SPLIT = Problem("split", QUESTION, "n = int(input())\nprint(n, 0)\n", "", (), task=Task.STREAM, checker=CHECKER)


@pytest.mark.parametrize(
    ("program", "passed"),
    [
        (SPLIT.solution, [True, True]),
        ("n = int(input())\nprint(0, n)", [True, True]),
        ("n = int(input())\nprint(n - 1, 1)", [True, False]),  # of 0 it gives -1 and 1
        ("n = int(input())\nprint(n, n)", [False, True]),
        ("print('True')", [False, False]),
        ("print(\"', '', '') is True or (lambda *_: True)('\")", [False, False]),
        ("print('9' * 70_000)", [False, False]),
        ("1 / 0", [False, False]),
    ],
)
def test_a_checker_decides_where_many_outputs_are_right(program, passed, pool):
    expected = {"7\n": "['7', '0']", "0\n": "['0', '0']"}
    found = submit_calls(pool, SPLIT, program, expected).result(expected).by_call
    assert [found[given].value == value for given, value in expected.items()] == passed
    tests = [Test(given, value) for given, value in expected.items()]
    assert [verdict.passed for verdict in submit_program(pool, SPLIT, program, tests).result().tests] == passed


@pytest.mark.parametrize(
    "checker",
    [
        *("def check(*_): return 1", "def check(*_): return 'True'", "def check(*_): raise SystemExit"),
        *("while True: pass", "check = 3", "(", "class T:\n def __eq__(s, o): return True\ndef check(*_): return T()"),
        *("def check(*_): assert False", "def check(g, o, e): return int(o) > int(givn)"),
    ],
)
def test_a_checker_without_an_answer_is_a_fault_of_the_judge_and_no_verdict(checker, pool):
    problem = replace(SPLIT, checker=checker, golden_tests=(stream_line("7", "7 0"),))
    with pytest.raises(SandboxError, match="a checker gives no answer to the expected output"):
        submit_program(pool, problem, "print(0, 7)", own_tests(pool, problem)).result()
    assert "cannot judge the stated output of '7'" in str(failures([problem], pool))
    assert "cannot judge the stated output of '7'" in make_benchmark([problem], pool).unsound[0].reason


@pytest.mark.parametrize(
    ("checker", "reason"),
    [
        ("def check(given, output, expected): return True", "accepts every output"),
        ("def check(given, output, expected): return output == '8'", "it rejects it"),
        (CHECKER, None),
        ("def check(given, output, expected): return True if output else None", None),
    ],
)
def test_a_checker_must_accept_what_is_stated_and_not_everything(checker, reason, pool):
    (found,) = failures([replace(SPLIT, checker=checker, golden_tests=(stream_line("7", "3 4"),))], pool)
    assert found is None if reason is None else reason in found


def test_an_output_that_breaks_the_checker_alone_is_wrong(pool):
    tests = [Test("7\n", "['7', '0']")]
    (verdict,) = submit_program(pool, SPLIT, "print('seven', 0)", tests).result().tests
    assert (verdict.status, verdict.detail[:29]) == (Status.FAILED, "the checker raised ValueError")


def test_a_digest_is_not_shown_to_a_checker(pool):
    lax = replace(SPLIT, checker="def check(given, output, expected):\n    return len(output) > 9 and output[0] != 'x'")
    programs = [f"print('{letter}' * {size})" for letter in "xy" for size in (10_000, 1_100_000)]
    tests = [Test("7\n", "['seven is odd']")]
    passed = [submit_program(pool, lax, program, tests).result().passed for program in programs]
    assert passed == [False, False, True, False]


def test_a_checker_sees_characters_as_they_are(pool):
    echoes = "def check(given, output, expected):\n    return {output, expected} == {given.strip()}"
    problem = replace(SPLIT, checker=echoes, golden_tests=(stream_line("\U0001f40d'\\é", "\U0001f40d'\\é"),))
    assert failures([replace(problem, solution="print(input())")], pool) == [None]
    (verdict,) = submit_program(pool, problem, "print(input()[:-1])", own_tests(pool, problem)).result().tests
    assert (verdict.status, verdict.detail) == (Status.FAILED, "")


def test_a_checker_sees_tokens_as_the_program_printed_them(pool):
    money = "def check(given, output, expected):\n    return output.endswith('.50') and expected == '1.50'"
    problem = replace(SPLIT, checker=money, golden_tests=(stream_line("7", "1.50"),))
    programs = ["print('2.50')", "print('2.5')", "print('1.5')", "print('1.50')"]
    passed = [submit_program(pool, problem, program, own_tests(pool, problem)).result().passed for program in programs]
    assert passed == [True, False, False, True]


def test_stated_answers_are_checked_too_and_rewards_follow(pool):
    def said(given, stated):
        return f"```input\n{given}\n```\n```output\n{stated}\n```"

    suites = [said(7, "3 4"), said(7, "3 5")]  # right, if not as the reference has it; and wrong
    programs = ["n = int(input())\nprint(1, n - 1)", "n = int(input())\nprint(n, 1)"]
    question = play(pool, programs, dict.fromkeys(programs, suites), problem=SPLIT, size=1)
    assert [program.reward for program in question.programs] == [1.0, 0.0]
    assert [suite.validated.invalid for suite in question.programs[0].suites] == [0, 1]


@pytest.mark.parametrize("stated", ["100 1", "101 0"])
@pytest.mark.parametrize(
    "refusal", ["raise ValueError", "assert False", "return False", "return 1", "any(iter(int, 1))", "raise SystemExit"]
)
def test_an_input_that_the_checker_is_not_made_for_is_an_invalid_test(refusal, stated, pool):
    problem = replace(SPLIT, checker=CHECKER.replace("    return", f"    if n > 100: {refusal}\n    return"))
    program, suite = "n = int(input())\nprint(n - 1, 1)", blocks(("101", stated), ("7", "6 1"))
    question = play(pool, [program] * 2, {program: [suite] * 2}, problem=problem)
    (suite, _) = question.programs[0].suites
    assert (suite.validated.invalid, [test.call for test in suite.validated.kept]) == (1, ["7\n"])
    assert question.programs[0].reward == 1.0


def test_a_benchmark_asks_the_checker(pool):
    problem = replace(SPLIT, golden_tests=(stream_line("7", "7 0"), stream_line("9", "4 5")))
    assert make_benchmark([problem], pool).problems == (problem,)
    checks = [submit_program(pool, problem, each, own_tests(pool, problem)) for each in ("print(7, 0)", SPLIT.solution)]
    assert [check.result().passed for check in checks] == [False, True]


def test_a_book_with_another_right_answer_to_an_input_harms_no_right_program(pool):
    problem = replace(SPLIT, golden_tests=(stream_line("7", "3 4"), stream_line("7", "5 2"), stream_line("7", "5 3")))
    assert [test.expected for test in book_tests(problem, pool)] == ["['7', '0']"] * 2 + ["['5', '3']"]
    sound = replace(problem, golden_tests=problem.golden_tests[:2])
    assert submit_program(pool, sound, "print(1, 6)", own_tests(pool, sound)).result().passed
    assert make_benchmark([sound], pool).problems == (sound,)
