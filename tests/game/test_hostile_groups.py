"""What a hostile suite can do to the rewards of a group: nothing to others', and nothing good to its own."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from judged_group import PROBLEM, RIGHT, played

from codea1_jax.game.rollouts import QuestionRollout
from codea1_jax.game.suites import extract_suite
from sandbox import Limits, SandboxPool

LIMITS = Limits(call_seconds=0.3, load_seconds=0.2, program_seconds=4.0, wall_factor=2.5, memory_mb=256)
WRONG = "def f(x, y=0):\n    return [x + y, x] if x < 3 else [0]"
# Right, but it remembers: whatever one call does to its memory, time or state, the next must not feel.
CACHED = """
from functools import lru_cache
@lru_cache(maxsize=None)
def grown(x):
    return [x] * max(0, x)
def f(x, y=0):
    grown(x)
    return [x + y, x]
"""
COUNTING = """
calls = []
def f(x, y=0):
    calls.append(x)
    return [x + y, x] if len(calls) < 3 else None
"""
HONEST = ("assert f(1) == [1, 1]\nassert f(5) == [5, 5]", "assert f(2) == [2, 2]\nassert f(4, 1) == [5, 4]")

HOSTILE = {
    "heavy arguments": "\n".join(f"assert f(sum(range(10 ** 8 + {i}))) == 1" for i in range(200)),
    "heavy stated answers": "\n".join(f"assert f({i}) == sum(range(10 ** 8 + {i}))" for i in range(200)),
    "fills memory": "\n".join(f"assert f([{i}] * 10 ** 8) == 1" for i in range(200)),
    "fills a cache": "\n".join(
        f"assert f(3 * 10 ** 6 + {i}) == [3 * 10 ** 6 + {i}, 3 * 10 ** 6 + {i}]" for i in range(16)
    ),
    "many calls": "\n".join(f"assert f({i}) == [{i}, {i}]" for i in range(100, 400)),
    "long arguments": "\n".join(f"assert f({i}, {'1' * 4000}) == 1" for i in range(16)),
    "huge numbers": "\n".join(f"assert f(10 ** 10 ** {i}) == 1" for i in range(5, 12)),
    "deep": "\n".join("assert f(" + "[" * 90 + f"{i}" + "]" * 90 + ") == 1" for i in range(16)),
    "raises": "\n".join(f"assert f({i}, 'a') == 1" for i in range(16)),
    "the same inputs as honest tests, stated wrong": "assert f(1) == 7\nassert f(5) == 8\nassert f(2) == 9",
    "ends the parser": "assert f(" + "(" * 5_000 + "\n" + "@" * 5_000,
}


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=2, limits=LIMITS) as pool:
        yield pool


def results(question: QuestionRollout, suites: int) -> list:
    """All that the first suites of every program are worth, and each program's verdicts on them."""
    return [
        [(suite.reward, suite.validated, [v.status for v in suite.verdicts]) for suite in program.suites[:suites]]
        for program in question.programs
    ]


@pytest.mark.parametrize("reference", [RIGHT, CACHED], ids=["plain", "cached"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_suite_changes_no_other_suites_reward_and_no_verdict(pool, kind, reference):
    programs = (RIGHT, WRONG, CACHED, COUNTING)
    problem = replace(PROBLEM, solution=reference)
    alone = played(pool, programs, [HONEST] * 4, problem)
    joined = played(pool, programs, [(*HONEST, HOSTILE[kind])] * 4, problem)
    assert results(joined, suites=2) == results(alone, suites=2)
    assert [p.valid for p in joined.programs] == [True] * 4
    assert [[v.passed for s in p.suites[:2] for v in s.verdicts] for p in joined.programs] == [
        [True] * 4,
        [True, False, True, False],
        [True] * 4,
        [True] * 4,
    ]


def test_pooled_tests_are_judged_alike_with_and_without_a_hostile_sibling(pool):
    alone = played(pool, (RIGHT, CACHED), [HONEST, HONEST], pool_tests=True, passing="all")
    hostile = HOSTILE["heavy arguments"]
    joined = played(pool, (RIGHT, CACHED), [HONEST, (*HONEST, hostile)], pool_tests=True, passing="all")
    assert [p.reward for p in alone.programs] == [p.reward for p in joined.programs] == [1.0, 1.0]


def respelled(rng: random.Random, x: int) -> str:
    """A test of the input `x` in another spelling, and with an answer that is right."""
    spellings = [f"f({x} + 0)", f"f(*[{x}])", f"f(x={x})", f"f({x}, 0)", f"f({x}.0)", f"f({x}, y=0)"]
    spellings += [f"f(y=0, x={x})", f"f(int('{x}'))", f"f([{x}][0])", f"f(len(range({x})))"]
    spelling = rng.choice(spellings)
    look, answer = rng.choice(
        [
            ("{}", f"[{x}, {x}]"),
            ("sorted({})", f"[{x}, {x}]"),
            ("len({})", "2"),
            ("{}[1]", f"{x}"),
            ("set({})", f"{{{x}}}"),
        ]
    )
    return f"assert {look.format(spelling)} == {answer}"


VACUOUS = ["len([f(1)]) == 1", "[f(1), 7][1] == 7", "bool([f(2)]) == True", "(f(1) == 99) == False", "f(1) * 0 == []"]
VACUOUS += ["isinstance(f(1), list) == True", "f(3)[:0] == []", "(f(1) in [3]) == False", "max([f(1)], [9]) == [9]"]
VACUOUS += ["len(max(str(f(1)))) == 1", "len(min(str(len(str(f(1)))))) == 1", "str(f(1))[0][0][0] == '['"]
VACUOUS += ["len(str(f(1))[0]) == 1", "str(f(1))[-1] == ']'"]
VACUOUS += [
    "sum([], f(1)) == [1, 1]",
    "(7 if f(1) else 8) == 7",
    "(f('a b') is 'a b') == False",
    "[7 for x in f(1)] == [7, 7]",
    "(f(1) and 7) == 7",
    "round(3 + 0 * f(1)[0]) == 3",
]


@pytest.mark.parametrize("count", [40, pytest.param(1_000, marks=pytest.mark.long)])
def test_no_mixture_earns_more_than_its_distinct_honest_tests(pool, count):
    rng = random.Random(0)
    for _ in range(count):
        inputs = rng.sample(range(8), rng.randint(1, 4))
        honest = [f"assert f({x}) == [{x}, {x}]" for x in inputs]
        again = [respelled(rng, rng.choice(inputs)) for _ in range(rng.randint(0, 6))]
        vacuous = [f"assert {test}" for test in rng.sample(VACUOUS, rng.randint(0, 5))]
        # In any order behind the honest ones: of two spellings of one input the first counts.
        mixed = honest + rng.sample(again + vacuous, len(again) + len(vacuous))
        texts = ["\n".join(lines) for lines in (honest, honest + vacuous, mixed)]
        (program,) = played(pool, [WRONG], [texts]).programs
        plain, with_vacuous, with_all = program.suites
        assert with_vacuous.reward == plain.reward, texts[1]
        assert with_all.reward.adversarial == plain.reward.adversarial, texts[2]
        assert with_all.reward.reward <= plain.reward.reward, texts[2]
        assert with_all.validated.kept == plain.validated.kept, texts[2]


@pytest.mark.parametrize("text", VACUOUS)
def test_a_test_whose_answer_needs_no_knowledge_of_the_value_is_rejected(text):
    suite = extract_suite(f"assert {text}", "f")
    assert (len(suite.tests), len(suite.rejected)) == (0, 1)


def test_eight_spellings_of_one_failing_input_earn_what_one_earns(pool):
    spellings = ["f(5)", "f(0 + 5)", "f(*[5])", "f(x=5)", "f(5.0)", "f(5, 0)", "f(y=0, x=5)", "sorted(f(5))"]
    once, often = ("\n".join(f"assert {call} == [5, 5]" for call in calls) for calls in (["f(5)"] * 8, spellings))
    (program,) = played(pool, [WRONG], [(once, often)]).programs
    repeated, respelt = (suite.reward for suite in program.suites)
    assert repeated == respelt
    assert repeated.adversarial == 1 / 8
    (by_text,) = played(pool, [WRONG], [(once, often)], repeats="text").programs
    assert by_text.suites[1].reward.adversarial == 1.0


def test_a_reference_has_half_of_the_memory_and_depth_that_programs_have(pool):
    # Without a default value: Python 3.13.0 does not count calls that leave one out.
    deep = "def f(x):\n    return [x, x] if x <= 0 else f(x - 1)"
    texts = ["assert f(300) == [0, 0]", "assert f(700) == [0, 0]"]
    (program,) = played(pool, [deep], [texts], replace(PROBLEM, solution=deep)).programs
    assert [len(suite.validated.kept) for suite in program.suites] == [1, 0]  # 700 fits a program's 1,000, not its half
    big = "def f(x, y=0):\n    return [len(bytearray(x << 20)), 0]"
    texts = ["assert f(40) == [40 << 20, 0]", "assert f(160) == [160 << 20, 0]"]
    (program,) = played(pool, [big], [texts], replace(PROBLEM, solution=big)).programs
    assert [len(suite.validated.kept) for suite in program.suites] == [1, 0]
