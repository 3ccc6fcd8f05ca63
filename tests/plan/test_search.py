"""The search for a layout: what it proposes fits by arithmetic, and the compiler's figures choose among it."""

import pytest

from codea1_jax.common.chips import find_hardware
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, load
from codea1_jax.plan import search as searching
from codea1_jax.plan.compiler import CompilerError
from codea1_jax.plan.forecast import StepCalls
from codea1_jax.plan.memory import least_memory
from codea1_jax.plan.phases import layout_table
from codea1_jax.plan.plan import Plan, Row
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.search import COMPILED, estimated_seconds, rank, search
from codea1_jax.plan.workload import Phase, sampling_loads

PRESET, ONE = "1.5b/a1_h100", ("mesh.fsdp=1", "train.questions=32")
HARDWARE = find_hardware("h100:1")
DECODING = Phase("decode", "test")


def reload(overrides, *more):
    return load(Config, PRESET, [*ONE, *more, *overrides])


@pytest.fixture(scope="module")
def ranked():
    return rank(reload(()), HARDWARE, 0.25, reload)


def test_every_layout_has_room_for_the_longest_sample_and_for_the_gradient(ranked):
    assert len({layout.rows for layout in ranked}) > 3
    for layout in ranked:
        run = make_planned_run(reload(layout.overrides(reload(()))), HARDWARE)
        assert max(least_memory(run).values()) <= HARDWARE.chip.memory
        for each in sampling_loads(run.config):
            capacity = run.capacity(each)
            assert capacity.pages >= capacity.most_pages and capacity.rows <= max(layout.rows, 1)


def test_layouts_are_ranked_by_their_estimate_and_too_few_rows_or_pages_cost_time(ranked):
    def estimate(*overrides):
        return estimated_seconds(make_planned_run(reload(overrides), HARDWARE), HARDWARE, 0.25)

    seconds = [estimate(*layout.overrides(reload(()))) for layout in ranked]
    assert seconds == sorted(seconds)
    best = ranked[0].overrides(reload(()))
    assert estimate(*best, "rollout.rows=8") > 2 * seconds[0]
    assert estimate(*best, "rollout.cache_tokens=20000") > 2 * seconds[0]
    assert estimate(*best, "model.remat=dots") < estimate(*best, "model.remat=full")


def test_a_tensor_axis_divides_the_heads():
    def eight(overrides):
        return load(Config, PRESET, overrides)

    meshes = searching.meshes(eight(()), find_hardware("h100:8"))
    assert (1, 8, 1) in meshes and (8, 1, 1) in meshes and (1, 4, 2) in meshes
    assert all(replica * fsdp * tensor == 8 and 12 % tensor == 0 for replica, fsdp, tensor in meshes)


def plan_of(run, seconds, fits):
    """A plan of one phase that takes that long."""
    fix = None if fits else "lower rollout.cache_tokens"
    row = Row(DECODING, layout_table(run)[DECODING], 1.0, "needs 2 of 1", 1, float(seconds), fix)
    return Plan(run, HARDWARE, (row,), 0.25, StepCalls({}, 0), 0.0)


def test_the_compilers_figures_choose(monkeypatch, ranked):
    given = reload(())

    def plan(config, hardware, fill, watch):
        run = make_planned_run(config, hardware)
        if config == given:
            return plan_of(run, 100, fits=True)
        if config.rollout.rows == ranked[0].rows:
            return plan_of(run, 50, fits=config.model.remat == ranked[0].remat)
        if config.rollout.rows == ranked[1].rows:
            raise CompilerError("no such tile")
        return plan_of(run, 75, fits=True)

    monkeypatch.setattr(searching, "make_plan", plan)
    lines = []
    found = search(given, HARDWARE, 0.25, reload, lines.append)
    recomputing = ranked[0].remat != "full"  # then the best is also compiled with recomputation
    assert len(found) == 1 + min(COMPILED, len(ranked)) + recomputing
    assert len(lines) == len(found)
    assert found[0].seconds == 50 and f"rollout.rows={ranked[0].rows}" in found[0].overrides
    assert found[-1].seconds == float("inf")
    assert any(candidate.overrides == () for candidate in found)  # the layout as given competes
    failed = {" ".join(candidate.overrides) for candidate in found if not candidate.fits}
    assert {line.removesuffix(": no such tile") for line in lines if line.endswith(": no such tile")} <= failed
    assert any(line.endswith(": no such tile") for line in lines)


def test_a_model_that_fits_no_layout_is_refused():
    def seven_billion(overrides):
        return load(Config, "7b/a1_h100", ["mesh={fsdp: 1, tensor: 1}", *overrides])

    with pytest.raises(UserError, match="no layout fits h100:1"):
        search(seven_billion(()), HARDWARE, 0.25, seven_billion, print)
