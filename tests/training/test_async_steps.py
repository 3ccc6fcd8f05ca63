"""Steps that are drawn before the last one is learned from (train.async_steps=1)."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest
from interrupted_run import interrupted_after, train_from
from tiny_run import SETTINGS, without_times

from codea1_jax.common.errors import Interrupted, UserError
from codea1_jax.config import Config, load
from codea1_jax.game.players import ProgramRequest
from codea1_jax.game.replay import SampledRound, pack_sampled, replaying, unpack_sampled
from codea1_jax.rollout import Completion
from codea1_jax.rollout.sampler import Counters
from codea1_jax.run.rundir import RunDir
from codea1_jax.run.telemetry import rollouts_path
from codea1_jax.training.judges import make_judge
from codea1_jax.training.loop import records, train
from codea1_jax.training.parts import Training, make_training
from codea1_jax.training.start import resume, start
from codea1_jax.training.state import State, pack_state
from codea1_jax.training.step import begin, learn

CAPS = ("code.grpo.importance_cap=2", "test.grpo.importance_cap=2")
PRESET = "micro/a1_paper"
CONFIG = load(Config, PRESET, [*SETTINGS, *CAPS, "train.async_steps=1", "run.directory=unused", "eval.every=0"])


@pytest.fixture(scope="module")
def training() -> Iterator[Training]:
    with make_judge(CONFIG.sandbox) as judge:
        yield make_training(CONFIG, judge)


def open_run(directory: Path, *, again: bool = False) -> RunDir:
    return RunDir(directory, CONFIG, CONFIG.checkpoint, resume=again)


@pytest.fixture(scope="module")
def straight(training: Training, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, State]:
    """A run that nothing disturbed, and its last state."""
    directory = tmp_path_factory.mktemp("undisturbed")
    with open_run(directory) as run:
        return directory, train_from(run, training)


def assert_same_state(one: State, other: State) -> None:
    (arrays, document), (others, document_of_other) = pack_state(one), pack_state(other)
    for a, b in zip(jax.tree.leaves(arrays), jax.tree.leaves(others), strict=True):
        assert (a == b).all()
    assert document == document_of_other


def copied(state: State) -> State:
    """Survives the donation of the other one's policies."""
    return replace(state, policies=jax.tree.map(lambda x: x.copy(), state.policies))


def test_a_step_learns_from_what_the_policies_before_the_last_update_have_drawn(training, straight):
    """The order by hand: each step is played on the policies that the step before it began with, and today's book."""
    questions = training.loader()
    before, state = None, start(training)
    recorded = []
    for step in range(4):
        drawing = state if before is None else replace(before, step=step, book=state.book)
        rollouts = begin(training, drawing, next(questions)).result()
        recorded.append(records(training, step + 1, rollouts))
        before = copied(state)
        state, _ = learn(training, state, rollouts)
    directory, end = straight
    assert_same_state(replace(state, data=end.data), end)
    for step, expected in enumerate(recorded, 1):
        assert [json.loads(line) for line in rollouts_path(directory, step).read_text().splitlines()] == expected
    assert any(question["book_before"] for question in recorded[3])  # step 4 meets questions again


def test_what_was_drawn_by_other_policies_is_weighed(straight):
    """The first step is drawn by the policy that learns from it, the next ones by an earlier one."""
    figures = [line for line in without_times(straight[0]) if line["kind"] == "train"]
    mismatch = [line["test/rollout_difference_mean"] for line in figures]
    assert mismatch[0] < 1e-4 < min(mismatch[1:])


@pytest.mark.parametrize("step", [1, 2])
def test_a_run_that_is_stopped_keeps_what_is_drawn_ahead_and_ends_the_same(step, training, straight, tmp_path):
    with interrupted_after(step), pytest.raises(Interrupted, match="SIGINT"), open_run(tmp_path) as run:
        train_from(run, training)
    with open_run(tmp_path, again=True) as run:
        assert run.resume_step == step
        state = resume(training, run)
        assert state.ahead is not None
        drew: list[Any] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(training.games.samplers["code"].sampler), "generate", lambda *_: drew.append(_))
            begin(training, state, next(_at(training, state))).result()
        assert not drew  # no policy is asked again
        assert_same_state(train(training, state, run), straight[1])
    assert without_times(tmp_path) == without_times(straight[0])


def _at(training: Training, state: State) -> Any:
    questions = training.loader()
    questions.set_state(state.data)
    return questions


def test_nothing_is_drawn_for_a_step_after_the_last(straight):
    assert straight[1].ahead is None


def test_what_is_drawn_survives_its_own_packing():
    completions = (
        (Completion((5, 1), (-0.5, -0.25), True), Completion((7,), (-1.5,), False)),
        (),
        (Completion((151_935,), (-(2.0**-20),), True),),
    )
    work, seconds = {"code": Counters(prefilled=3, drawn=5), "test": Counters()}, {"generate_code": 0.1}
    for kept in (
        SampledRound(completions, (), work, seconds),
        SampledRound(completions[:1], completions, work, seconds),
        SampledRound((), (), {}, {}),
    ):
        assert unpack_sampled(json.loads(json.dumps(pack_sampled(kept)))) == kept


def test_what_was_drawn_for_other_requests_is_refused(training):
    game = training.games.game({name: None for name in ("code", "test")})
    again = replaying(game, SampledRound(((Completion((5,), (-1.0,), True),),), (), {}, {}))
    problem = training.questions.train[0]
    assert again.code is not None
    with pytest.raises(ValueError, match="1 requests are not those"):
        list(again.code.programs([ProgramRequest(problem, 2)]))


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ([CAPS[0]], "set test.grpo.importance_cap, as in test.grpo.importance_cap=2"),
        ([*CAPS, "method.name=sft"], "method.name=sft learns from nothing that is drawn; leave it out"),
    ],
)
@pytest.mark.parametrize("setting", ["train.async_steps=1", "rollout.kv_cache_dtype=fp8", "rollout.weight_dtype=int8"])
def test_what_another_policy_draws_needs_weights_and_somebody_who_learns_from_it(setting, overrides, says):
    with pytest.raises(UserError, match=f"{setting.partition('=')[0]}: .*{says}"):
        load(Config, PRESET, [*SETTINGS, *overrides, setting, "run.directory=unused"])
