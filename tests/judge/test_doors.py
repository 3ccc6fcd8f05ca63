"""One verdict at every door: a response to a question is right at all of them or at none.

Where a door knows less (`/check`, `/submit` and the reward functions of `examples/` get tests and no question), what it
cannot know is not asked of it: docs/judge.md says so.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from game_config import game_config
from scripted import PROMPTS, TOKENIZER, Scripted
from service import answer_to, running

from codea1_jax.config import RolloutConfig
from codea1_jax.evals.collaboration import solve
from codea1_jax.evals.heldout import evaluate_tests, prepare
from codea1_jax.evals.samples import RecordedPlayer
from codea1_jax.game.players import PolicyPlayer, TextPlayer
from codea1_jax.game.round import Game, play_round
from codea1_jax.game.tasks import task_of
from codea1_judge import Judge, program_in
from codea1_judge.submit import submit
from data_pipeline import Problem, problem_files
from data_pipeline.benchmark import check_samples, make_benchmark
from data_pipeline.golden import plain_golden_tests
from data_pipeline.validate import failures
from sandbox import Limits, SandboxPool
from sandbox.remote.server import ENDPOINTS, make_app

LIMITS = Limits(call_seconds=0.5, load_seconds=0.5, program_seconds=3)


WITHOUT_QUESTION = ("/check", "/submit", "examples")


@dataclass(frozen=True)
class Asked:
    """A question's row. closed: the doors that cannot judge it, of which docs/judge.md says why."""

    row: Mapping[str, object]
    closed: tuple[str, ...] = ()

    @property
    def problem(self) -> Problem:
        (problem,) = problem_files.FORMAT.read([dict(self.row)]).problems
        return problem


def function(name: str, solution: str, tests: list[str], question: str = "") -> dict[str, object]:
    return {
        "id": name,
        "question": question or f"Write {name}.",
        "solution": solution,
        "entry_point": name,
        "tests": tests,
    }


def stream(name: str, solution: str, tests: list[tuple[str, str]], **more: str) -> dict[str, object]:
    rows = [{"input": given, "output": printed} for given, printed in tests]
    return {"id": name, "question": f"Read and print: {name}.", "solution": solution, "tests": rows} | more


COUNTS = (
    "def counts(text):\n    found = {}\n    for c in text:\n        found[c] = found.get(c, 0) + 1\n    return found"
)
STACK = """class Stack:
    def __init__(self):
        self.x = []
    def push(self, v):
        self.x.append(v)
    def pop(self):
        return self.x.pop()"""
ASKED = {
    "double": Asked(
        function("double", "def double(x): return x + x", ["assert double(2) == 4", "assert double('a') == 'aa'"])
    ),
    "mean": Asked(
        function(
            "mean",
            "def mean(xs): return sum(xs) / len(xs)",
            ["assert abs(mean([0.1, 0.2, 0.3]) - 0.2) < 1e-9", "assert mean([1]) == 1"],
        )
    ),
    "counts": Asked(
        function(
            "counts", COUNTS, ["assert list(counts('bab')) == ['b', 'a']", "assert counts('bab') == {'a': 1, 'b': 2}"]
        ),
        closed=("eval tests",),  # where a test that depends on an order is invalid
    ),
    "total": Asked(
        function(
            "total",
            "def total(xs): return sum(xs)",
            ["assert total([1, 2]) == 3"],
            "from typing import List\ndef total(xs: List[int]) -> int: ...",
        ),
        closed=WITHOUT_QUESTION,  # which state its imports
    ),
    "Stack": Asked(
        function(
            "Stack",
            STACK,
            ["s = Stack()\ns.push(1)\ns.push(2)\nassert s.pop() == 2"],
            "class Stack with push(v) and pop().",
        ),
        closed=WITHOUT_QUESTION,  # whose tests make objects
    ),
    "sum": Asked(
        stream("sum", "input()\nprint(sum(map(int, input().split())))", [("2\n3 4\n", "7\n"), ("0\n\n", "0\n")]),
        closed=("/check",),
    ),
    "width": Asked(stream("width", "print(len(input()))", [("ab  \n", "4"), ("\n", "0\n")]), closed=("/check",)),
    "third": Asked(stream("third", "print(int(input()) / 3)", [("9\n", "3.0\n"), ("6", "2")]), closed=("/check",)),
    "above": Asked(
        stream(
            "above",
            "print(int(input()) + 1)",
            [("5\n", "6\n")],
            checker="def check(given, output, expected):\n    return int(output) > int(given)",
        ),
        closed=(*WITHOUT_QUESTION, "eval tests"),  # where the checker judges stated answers, by the reference
    ),
}
RESPONSES: list[tuple[str, str, bool]] = [
    ("double", "```python\ndef double(x):\n    return x + x\n```", True),
    ("double", "```python3\ndef double(x):\n    return 2 * x\n```\nIt prints\n```\n4\n```", True),
    ("double", "Sure:\r\n```py\r\ndef double(x):\r\n    return x * 2\r\n```\r\n", True),
    ("double", "1. So:\n\n   ~~~python {.x}\n   def double(x):\n       return x + x\n   ~~~\n", True),
    (
        "double",
        "<think>\n```python\ndef double(x): return 4\n```\n</think>\n```python\ndef double(x): return x + x\n```",
        True,
    ),
    ("double", "```python\ndef double(x):\n    return x + x", True),
    ("double", "```python\ndef double(x):\n    return x + x\n```\n```python\nprint(double(2))\n```", True),
    ("double", "```python\ndef double(x):\n    return 4\n```", False),
    ("double", "```python\ndef twice(x):\n    return x + x\n```", False),
    ("double", "```python\ndef double(x):\n    while True: pass\n```", False),
    (
        "double",
        "```python\nclass Any:\n    def __eq__(self, other): return True\ndef double(x):\n    return Any()\n```",
        False,
    ),
    ("double", "```python\nimport os\nprint('passed')\nos._exit(0)\n```", False),
    ("double", "```python\nimport sys\nsys.setrecursionlimit(10**6)\ndef double(x): return double(x)\n```", False),
    ("double", "I cannot.", False),
    ("mean", "```python\ndef mean(xs): return sum(xs) / len(xs)\n```", True),
    ("mean", "```python\ndef mean(xs): return sum(x / len(xs) for x in xs)\n```", True),
    ("mean", "```python\ndef mean(xs): return round(sum(xs) / len(xs))\n```", False),
    ("mean", "```python\ndef mean(xs): return float('nan')\n```", False),
    ("counts", f"```python\n{COUNTS}\n```", True),
    ("counts", "```python\nfrom collections import Counter\ndef counts(text): return Counter(text)\n```", True),
    ("counts", "```python\ndef counts(text): return {c: text.count(c) for c in sorted(text)}\n```", False),
    ("counts", "```python\ndef counts(text): return [(c, text.count(c)) for c in text]\n```", False),
    ("total", "```python\ndef total(xs: List[int]) -> int:\n    return sum(xs)\n```", True),
    ("total", "```python\ndef total(xs: List[int]) -> int:\n    return sum(xs[1:])\n```", False),
    ("Stack", f"```python\n{STACK}\n```", True),
    ("Stack", f"```python\n{STACK.replace('pop()', 'pop(0)')}\n```", False),
    ("Stack", "```python\ndef Stack(): return 2\n```", False),
    ("sum", "```python\ninput()\nprint(sum(map(int, input().split())))\n```", True),
    ("sum", "```python\nimport sys\nprint(sum(map(int, sys.stdin.read().split()[1:])))\n```", True),
    ("sum", "```python\nn = int(input())\nprint(n)\nprint(sum(map(int, input().split())))\n```", False),
    ("sum", "```python\nprint(7)\n```", False),
    ("sum", "```python\nprint(7 if input() == '2' else 0); raise SystemExit(1)\n```", False),
    ("width", "```python\nprint(len(input()))\n```", True),
    ("width", "```python\nprint(len(input().strip()))\n```", False),
    ("width", "```python\nprint(len(open('/dev/stdin').readline().rstrip('\\n')))\n```", True),
    ("third", "```python\nprint(int(input()) // 3)\n```", True),
    ("third", "```python\nprint('%.3f' % (int(input()) / 3))\n```", True),
    ("third", "```python\nprint(int(input()) / 2)\n```", False),
    ("above", "```python\nprint(int(input()) + 9)\n```", True),
    ("above", "```python\nprint(int(input()) - 1)\n```", False),
    ("above", "```python\nprint('more')\n```", False),
]
Door = Callable[[Problem, str], bool]


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=2, limits=LIMITS) as made:
        yield made


@pytest.fixture(scope="module")
def doors(pool: SandboxPool) -> Iterator[dict[str, Door]]:
    spec = spec_from_file_location("trl_reward", Path(__file__).parents[2] / "examples" / "trl_reward.py")
    assert spec and spec.loader
    example = module_from_spec(spec)
    spec.loader.exec_module(example)
    app = make_app(pool, endpoints={**ENDPOINTS, "/submit": submit})
    with (
        Judge(workers=1, limits=LIMITS) as judge,
        running(app) as address,
        Judge(address=address, limits=LIMITS) as remote,
    ):
        example.judge = lambda: judge

        def at_submit(problem: Problem, response: str) -> bool:
            row = {"id": 1, "content": problem.question, "labels": {"entry_point": problem.entry_point}}
            row["test"] = (
                [_case(*json.loads(line)) for line in problem.golden_tests] if _reads(problem) else _as_code(problem)
            )
            config = {"language": "python", "run_timeout": 1, "provided_data": row, "extra": {}}
            asked = {"dataset": "any", "id": 1, "completion": response, "config": config}
            status, text, _ = answer_to(f"{address}/submit", json.dumps(asked).encode())
            assert status == 200, text
            return json.loads(text)["accepted"]

        def at_check(problem: Problem, response: str) -> bool:
            program = program_in(response, problem.entry_point)
            return judge.check(program, _as_code(problem), problem.entry_point).passed

        def by_example(problem: Problem, response: str) -> bool:
            given = (
                [json.loads(line) for line in problem.golden_tests] if _reads(problem) else list(problem.golden_tests)
            )
            return example.passed_tests([response], [given]) == [1.0]

        yield {
            "Judge": lambda problem, response: judge.judge(_program(problem, response), problem).passed,
            "/execute": lambda problem, response: remote.judge(_program(problem, response), problem).passed,
            "/check": at_check,
            "/submit": at_submit,
            "eval code": lambda problem, response: _benchmarked(pool, problem, response),
            "eval tests": lambda problem, response: _held_out(pool, problem, response),
            "solve": lambda problem, response: _survives(pool, problem, response),
            "the game": lambda problem, response: _rewarded(pool, problem, response),
            "data validate": lambda problem, response: _is_solution(pool, problem, response),
            "examples": by_example,
        }


@pytest.mark.parametrize(("name", "response", "right"), RESPONSES)
def test_a_response_gets_the_same_verdict_at_every_door(doors: dict[str, Door], name: str, response: str, right: bool):
    asked = ASKED[name]
    open_doors = [door for door in doors if door not in asked.closed]
    assert {door: doors[door](asked.problem, response) for door in open_doors} == dict.fromkeys(open_doors, right)


def _as_code(problem: Problem) -> str:
    return "\n".join(("import pytest", *problem.golden_tests))


def _case(given: str, printed: str) -> dict[str, object]:
    return {"input": {"stdin": given}, "output": {"stdout": printed}}


def _reads(problem: Problem) -> bool:
    return problem.task == "stream"


def _program(problem: Problem, response: str) -> str:
    return task_of(problem).read_program(response, problem, "commonmark")


def _benchmarked(pool: SandboxPool, problem: Problem, response: str) -> bool:
    benchmark = make_benchmark([problem], pool)
    assert benchmark.problems == (problem,)
    (result,) = check_samples(benchmark, [(problem, [_program(problem, response)])], pool)
    return result.statuses == ("passed",)


def _held_out(pool: SandboxPool, problem: Problem, response: str) -> bool:
    """The golden tests are written anew: they hold if the program is the reference."""
    reference = replace(problem, solution=_program(problem, response))
    heldout = prepare([reference], pool)
    if not heldout.problems:
        return False
    tests = "\n".join(plain_golden_tests(problem))
    player = TextPlayer(lambda requests: ((i, (_fenced(problem, tests),) * r.samples) for i, r in enumerate(requests)))
    figures = evaluate_tests(player, pool, heldout, 1, len(problem.golden_tests), (1,))
    return figures["eval/test_validity"] == 100


def _fenced(problem: Problem, tests: str) -> str:
    return tests if _reads(problem) else f"```python\n{tests}\n```"


def _survives(pool: SandboxPool, problem: Problem, response: str) -> bool:
    tests = _fenced(problem, "\n".join(plain_golden_tests(problem)))
    tester = TextPlayer(lambda requests: ((i, (tests,)) for i, _ in enumerate(requests)))
    coder = RecordedPlayer({problem.id: (_program(problem, response),)})
    (survivor,) = solve(problem, coder, tester, 1, pool)
    return survivor.passed == len(problem.golden_tests)


def _rewarded(pool: SandboxPool, problem: Problem, response: str) -> bool:
    code = PolicyPlayer(Scripted({PROMPTS.code(problem): [response] * 2}), PROMPTS, TOKENIZER.decode)
    (question,) = play_round(
        Game(code, None, pool, game_config(RolloutConfig(samples=2)), PROMPTS), [problem], {}, (1,)
    ).questions
    return question.programs[0].reward == 1.0


def _is_solution(pool: SandboxPool, problem: Problem, response: str) -> bool:
    return failures([replace(problem, solution=_program(problem, response))], pool) == [None]
