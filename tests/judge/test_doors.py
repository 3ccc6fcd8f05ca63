"""One verdict at every door: a response to a question is right at all of them or at none.

What docs/judge.md says that a door judges otherwise is not asked of it.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import yaml
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


ASKED = yaml.safe_load(Path(__file__).with_name("doors.yaml").read_text())
RESPONSES = [
    (name, text, kind == "right") for name in ASKED for kind in ("right", "wrong") for text in ASKED[name][kind]
]
Door = Callable[[Problem, str], bool]
PAGE = (Path(__file__).parents[2] / "docs" / "judge.md").read_text().partition("## One verdict everywhere")[2]
DIFFERS = {  # by door: in which kinds of questions
    door: set(kinds.split(", "))
    for door, kinds in re.findall(r"^\| `([^`]+)` \| ([a-z, ]+) \|", PAGE.partition("\n## ")[0], re.MULTILINE)
}


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
            return submitted(row, response)

        def submitted(row: Mapping[str, object], response: str) -> bool:
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
            "/submit of our rows": lambda problem, response: submitted(problem_files.row(problem), response),
            "eval code": lambda problem, response: _benchmarked(pool, problem, response),
            "eval tests": lambda problem, response: _held_out(pool, problem, response),
            "solve": lambda problem, response: _survives(pool, problem, response),
            "the game": lambda problem, response: _rewarded(pool, problem, response),
            "data validate": lambda problem, response: _is_solution(pool, problem, response),
            "examples/": by_example,
        }


@pytest.mark.parametrize(("name", "response", "right"), RESPONSES)
def test_a_response_gets_the_same_verdict_at_every_door(doors: dict[str, Door], name: str, response: str, right: bool):
    (problem,) = problem_files.FORMAT.read([ASKED[name]["row"]]).problems
    open_doors = [door for door in doors if not DIFFERS.get(door, set()) & set(ASKED[name].get("of", ()))]
    assert {door: doors[door](problem, response) for door in open_doors} == dict.fromkeys(open_doors, right)


def test_every_difference_that_the_page_states_is_of_a_door_and_of_a_question(doors: dict[str, Door]):
    assert DIFFERS.keys() < doors.keys()
    assert set().union(*DIFFERS.values()) == {kind for question in ASKED.values() for kind in question.get("of", ())}


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
    figures, _ = evaluate_tests(player, pool, heldout, 1, len(problem.golden_tests), (1,))
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
