"""Cases of ours that the authors' own scoring functions were run on by hand (ZJU-REAL/Code-A1, commit be86d93).

What they made of them stands here. Where a case is judged otherwise here, docs/fidelity.md has the reason.
"""

from pathlib import Path

import pytest
from paper_games import play
from paper_rounds import Outcome

from codea1_jax.evals.paper_reading import read_test
from data_pipeline import Problem
from data_pipeline.benchmark import check_samples, make_benchmark
from data_pipeline.responses import paper_program
from sandbox import SandboxPool

PAGE = (Path(__file__).parents[2] / "docs" / "fidelity.md").read_text()
SCRIPT_SECONDS = 0.3  # of CPU time: what hangs here hangs for ever


def block(*lines: str) -> str:
    return "\n".join(("```python", *lines, "```"))


def plus(value: str) -> str:
    return f"def f(x):\n    return x + {value}"


HANGS = "def f(x):\n    while x == 2: pass\n    return x + 1"
COUNTS = "calls = []\n\ndef f(x):\n    calls.append(x)\n    return x * calls.count(x)"
THREE = block("assert f(1) == 2", "assert f(2) == 3", "assert f(3) == 4")
CONSTANT = f"K = 3\n\n{plus('K')}"
CONSTANTS = "A: int = 2\nB = A * 2\nT = [A, B]\n\ndef f(xs):\n    return sum(xs) + A"
HELPERS = "half = lambda x: x // 2\nclass Box:\n    size = 1\n\ndef f(x):\n    return half(x) + Box.size"
FUNCTION = "def half(x):\n    return x // 2\n\ndef f(x):\n    return half(x) + 1"

# By name: the reference, the programs, each program's suites, and of each round what the authors' functions made of it:
# the programs' rewards, of each suite (kept, invalid, reward), and the page of the book.
ROUNDS = {
    "a test of the book hangs": (
        *(plus("1"), [HANGS, plus("2")], [THREE]),
        [
            ([1 / 3, 0], [[(3, 0, 0.3125)], [(3, 0, 0.375)]], [("f(2)", "3", 2), ("f(3)", "4", 2), ("f(1)", "2", 1)]),
            ([0, 0], [[(3, 0, 0.28125)], [(3, 0, 0.28125)]], [("f(2)", "3", 4), ("f(3)", "4", 4), ("f(1)", "2", 3)]),
        ],
    ),
    "constants in calls and answers": (
        CONSTANT,
        [CONSTANT, plus("3"), plus("2")],
        [block("assert f(K) == 6", "assert f(K + 1) == 7", "assert f(1) == K + 1", "assert f(0) == 3")],
        [
            (
                *([1, 1, 0], [[(4, 0, 0.25)], [(4, 0, 0.25)], [(4, 0, 0.5)]]),
                [("f(3)", "6", 1), ("f(3 + 1)", "7", 1), ("f(1)", "4", 1), ("f(0)", "3", 1)],  # K is written out here
            )
        ],
    ),
    "constants of constants": (
        *(CONSTANTS, [CONSTANTS.replace("+ A", "+ 2")]),
        [block("assert f([A, 1]) == 5", "assert f(T) == A + B + A", "assert f([B for A in [1]]) == 6")],
        [([1], [[(3, 0, 0.1875)]], [])],
    ),
    "a lambda and a class of the reference": (
        *(HELPERS, [HELPERS.partition("\n\n")[2]], [block("assert f(4) == 3")]),
        [([1], [[(1, 0, 0.0625)]], [])],
    ),
    "a function of the reference": (
        FUNCTION,
        [FUNCTION.partition("\n\n")[2], "def f(x):\n    return x // 2 + 1"],
        [block("assert f(4) == 3", "assert f(6) == 4")],
        [([0, 1], [[(2, 0, 0.25)], [(2, 0, 0.125)]], [("f(4)", "3", 1), ("f(6)", "4", 1)])],
    ),
    "the reference counts its calls": (
        *(COUNTS, [COUNTS, "def f(x):\n    return x"]),
        [block("assert f(1) == 1", "assert f(1) == 2", "assert f(2) == 2")],
        [([1, 2 / 3], [[(3, 0, 0.1875)], [(3, 0, 0.25)]], [("f(1)", "2", 1)])],
    ),
    "lines without a closed block": (
        *(plus("1"), [plus("1")]),
        [
            "assert f(1) == 2\nassert f(2) == 3\nassert f(3",
            "assert f(1)\nassert not f(2)\nassert f(3) == 4\nassert f(5",
            "Tests:\n  assert f(1) == 2  # one\nassert f(2) != 5; assert f(3) == 4\nassert f(5) == 6 == 6",
            "```python\nassert f(1) == 2\nassert f(2",
            "x = 4\nassert f(x) == 5",
        ],
        [([0.8], [[(2, 1, 0.125), (1, 3, 0.0625), (3, 1, 0.1875), (1, 1, 0.0625), (0, 1, 0)]], [])],
    ),
    "lines in a block": (
        *(plus("1"), [plus("1")]),
        [
            block("assert f(1) == 2", "assert f(1)", "assert 2 > f(1)", "assert f(3"),
            block("x = 4", "assert f(x) == 5", "assert f(x + 1) == 6"),
            block("assert f(1) == 2", "assert f(1) == 2", "assert f(1) == 3"),
        ],
        [([1], [[(1, 0, 0.0625), (1, 1, 0.0625), (1, 2, 0.0625)]], [])],
    ),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_a_round_earns_what_it_earns_there(pool: SandboxPool, name: str):
    reference, programs, suites, expected = ROUNDS[name]
    candidates = [(block(program), suites) for program in programs]
    found = play(pool, Problem("p", "Write f.", reference, "f", ()), [candidates] * len(expected), SCRIPT_SECONDS)
    for outcome, (rewards, earned, page) in zip(found, expected, strict=True):
        assert outcome == Outcome([True] * len(programs), [round(each, 6) for each in rewards], earned, page)


def test_a_stated_answer_that_raises_shifts_no_answers_here(pool: SandboxPool):
    suite = block("expected = 2", "assert f(1) == expected", "assert f(2) == 3", "assert f(3) == 4")
    candidates = [(block(program), [suite]) for program in (plus("1"), plus("2"))]
    (found,) = play(pool, Problem("p", "Write f.", plus("1"), "f", ()), [candidates], SCRIPT_SECONDS)
    assert (found.rewards, found.suites) == ([1, 0], [[(2, 1, 0.125)], [(2, 1, 0.25)]])
    there = [1 / 3, 0], [[(3, 1, 0.3125)], [(3, 1, 0.375)]]
    assert there != (found.rewards, found.suites) and "after a stated answer that raises" in PAGE


CHECK = "def check(f):\n    assert f([1, 2]) == 3\n    assert f([]) == 0\n"
RIGHT = "def f(xs):\n    return sum(xs)\n"
TYPED = "def f(xs: List[int]) -> int:\n    return sum(xs)\n"
MISSING = "try:\n    import {}\nexcept ImportError:\n    pass\n"
# By name: programs for one problem, which of them pass there, and which here where that differs.
SAMPLES = {
    "right and wrong": ([RIGHT, "def f(xs):\n    return 3\n"], [True, False], None),
    "an import that a sibling has": ([TYPED, f"from typing import List\n{TYPED}"], [True, True], None),
    "a variable of the module": (["ZERO = 0\ndef f(xs):\n    return sum(xs, ZERO)\n"], [True], None),
    "an import inside": (["def f(xs):\n    import math\n    return int(math.fsum(xs))\n"], [True], None),
    "an exit by exception": ([f"{RIGHT}import sys\nsys.exit(0)\n", RIGHT], [False, True], None),
    "an import of the prompt alone": ([TYPED], [False], [True]),
    "a main block that fails": ([f"{RIGHT}if __name__ == '__main__':\n    assert f([]) == 1\n"], [False], [True]),
    "a main block that reads": ([f"{RIGHT}if __name__ == '__main__':\n    print(f(input()))\n"], [False], [True]),
    "a module that may be missing": ([MISSING.format("missing") + RIGHT, RIGHT], [False, False], [True, True]),
    "an import alone in its block": ([MISSING.format("math") + RIGHT], [False], [True]),
    "a module that is missing": ([f"import missing\n{RIGHT}", RIGHT], [False, False], [False, True]),
    "a global": (["n = 0\ndef f(xs):\n    global n\n    n += 1\n    return sum(xs)\n"], [False], [True]),
    "an exit at once": (["import os\nos._exit(0)\n", RIGHT], [False, False], [False, True]),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_pass_as_they_do_there_but_for_the_script_that_they_share(pool: SandboxPool, name: str):
    programs, there, here = SAMPLES[name]
    question = 'from typing import List\n\ndef f(xs: List[int]) -> int:\n    """The sum."""\n'
    problem = Problem("p", question, RIGHT, "f", (), check=CHECK, source="humaneval")
    benchmark = make_benchmark([problem], pool).within("paper")
    (result,) = check_samples(benchmark, [(problem, [paper_program(block(each)) for each in programs])], pool)
    assert [status == "passed" for status in result.statuses] == (here or there)
    assert here != there and (here is None or "share one script" in PAGE)


def test_a_response_without_a_block_is_wrong_in_the_conversation():
    assert "assert 1 == 0" in read_test("assert f(1) == 2", "f", 0)
