"""2,000 random programs with suites under the original's rules: hangs, junk, unclosed blocks, and the mistake book.

What they are worth is recorded in `fixtures/paper_rounds.json`, as `support/paper_rounds.py` computes it without
reading or running a line. The judge plays the first questions here; `python tests/game/test_paper_rounds.py` plays all
of them, or with `--record` writes the file.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from game_config import game_config
from paper_rounds import PROGRAMS, SUITES, Outcome, Round, outcomes, rounds
from scripted import scripted_game

from codea1_jax.config import Config, RolloutConfig, load
from codea1_jax.game.judging import submit_script
from codea1_jax.game.rollouts import Page, QuestionRollout
from codea1_jax.game.round import play_round
from data_pipeline import Problem
from data_pipeline.responses import paper_program
from sandbox import Judge, Limits, SandboxPool

FIXTURE = Path(__file__).parents[1] / "fixtures" / "paper_rounds.json"
PRESET = load(Config, "1.5b/a1_paper")
SCRIPT_SECONDS = 0.15  # of CPU time, in place of the preset's ten: what hangs here hangs for ever


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=2, limits=Limits(memory_mb=256)) as pool:
        yield pool


def play(judge: Judge, played: Sequence[Round]) -> list[Outcome]:
    """One question's rounds by the project, as its preset has them."""
    sandbox = PRESET.sandbox
    assert sandbox.script_seconds is not None
    config = game_config(
        RolloutConfig(samples=PROGRAMS, suites=SUITES),
        method=PRESET.method,
        rewards=PRESET.rewards,
        sandbox=sandbox.model_copy(update={"script_seconds": SCRIPT_SECONDS}),
    )
    page: Page = {}
    found = []
    for each in played:
        question = each.question
        problem = Problem("p", question.text, question.solution, "f", ())
        responses = [program.response(question) for program, _ in each.candidates]
        shown = [paper_program(response) for response in responses]
        suites = {
            (question.text, program): [suite.text for suite in own]
            for program, (_, own) in zip(shown, each.candidates, strict=True)
        }
        game = scripted_game(judge, {question.text: responses}, suites, config, reading=PRESET.reading)
        (rollout,) = play_round(game, [problem], {"p": page}, (0,)).questions
        page = rollout.page_after
        found.append(_outcome(rollout))
    return found


def _outcome(question: QuestionRollout) -> Outcome:
    return Outcome(
        valid=[program.valid for program in question.programs],
        rewards=[program.reward for program in question.programs],
        suites=[
            [(len(suite.validated.kept), suite.validated.invalid, suite.reward.reward) for suite in program.suites]
            for program in question.programs
        ],
        page=[(test.call, test.expected, count) for test, count in question.page_after.items()],
    )


def test_rewards_validity_and_book_equal_the_originals_rules(pool):
    recorded = json.loads(FIXTURE.read_text())
    for number, played in enumerate(rounds(2)):
        assert [outcome.recorded() for outcome in play(pool, played)] == recorded[number]


def test_no_program_forges_a_verdict_of_a_script(pool):
    text = (Path(__file__).parents[1] / "sandbox" / "hostile_programs.txt").read_text()
    forging = text.partition("##### forged verdicts #####")[2].partition("#####")[0]
    programs = re.findall(r"^=== .+\n((?:(?!===).*\n)*)", forging, re.MULTILINE)
    programs = ["def f(x): return x + 1", *programs]
    pending = [submit_script(pool, program, ("f(1)", "f(2)", "f(1)"), "f", SCRIPT_SECONDS) for program in programs]
    answers = [[outcome.value for outcome in script.result().in_script or ()] for script in pending]
    right = ["2", "3", "2"]
    passed = [[value == expected for value, expected in zip(own, right, strict=True)] for own in answers]
    assert len(programs) > 30 and passed == [[True] * 3] + [[False] * 3] * (len(programs) - 1)


def test_the_recorded_figures_are_those_of_the_rules_and_of_every_kind():
    recorded = [[outcome.recorded() for outcome in outcomes(played)] for played in rounds()]
    assert json.loads(FIXTURE.read_text()) == recorded
    everything = [outcome for question in recorded for outcome in question]
    assert sum(len(valid) for valid, *_ in everything) == 2_000
    assert {tuple(valid) for valid, *_ in everything} >= {(True,) * 4, (False,) * 4}
    assert max(len(page) for *_, page in everything) > 8  # more than a program faces


def _main() -> None:
    if "--record" in sys.argv:
        lines = (json.dumps([outcome.recorded() for outcome in outcomes(played)]) for played in rounds())
        FIXTURE.write_text("[\n" + ",\n".join(lines) + "\n]\n")
        return
    recorded, differing = json.loads(FIXTURE.read_text()), 0
    with SandboxPool(workers=2, limits=Limits(memory_mb=256)) as judge:
        for number, played in enumerate(rounds()):
            found = [outcome.recorded() for outcome in play(judge, played)]
            differing += sum(ours != theirs for ours, theirs in zip(found, recorded[number], strict=True))
            print(f"question {number}: {differing} rounds differ so far", flush=True)


if __name__ == "__main__":
    _main()
