"""A run's directory belongs to one run, and everything a run writes is there and reads back."""

import json
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest
import yaml

from codea1_jax.common.errors import UserError
from codea1_jax.config import CheckpointConfig, Section
from codea1_jax.run.rundir import RunDir, find_run


class Where(Section):
    directory: str = "here"


class Settings(Section):
    run: Where = Where()
    hardware: str | None = None
    steps: int = 3
    rate: float | None = 0.5


def open_run(path: Path, settings: Settings | None = None, *, resume: bool = False) -> RunDir:
    return RunDir(path, settings or Settings(), resume=resume)


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_new_run_says_what_it_is_and_with_what_it_was_made(tmp_path):
    with open_run(tmp_path / "deep" / "run") as run:
        assert run.resume_step is None
    assert yaml.safe_load((run.path / "config.yaml").read_text()) == Settings().model_dump()
    assert "jax" in json.loads((run.path / "versions.json").read_text())["packages"]


def test_what_is_written_reads_back(tmp_path):
    with open_run(tmp_path) as run:
        run.log("eval", 0, {"eval/avg_at_n": 1.0})
        run.log("train", 1, {"code/reward": 0.5})
        assert [line["step"] for line in run.figures("train")] == [1]
        assert run.has_logged("eval", 0)
        assert not run.has_logged("eval", 1)
        run.write_refused([{"id": "a", "reason": "no solution"}, {"id": "b", "reason": "no test"}])
        run.write_rollouts(1, '{"question_id": "q"}\n')
        run.write_summary({"base": {"mul": 1.0}})
    assert [json.loads(line)["id"] for line in (tmp_path / "refused.jsonl").read_text().splitlines()] == ["a", "b"]
    assert json.loads((tmp_path / "rollouts" / "step_000001.jsonl").read_text()) == {"question_id": "q"}
    assert json.loads((tmp_path / "summary.json").read_text()) == {"base": {"mul": 1.0}}


def test_a_resumed_run_goes_on_from_its_last_checkpoint_and_forgets_what_came_later(tmp_path):
    with open_run(tmp_path) as run:
        for step in (1, 2, 3):
            run.log("train", step, {"x": step})
            run.write_rollouts(step, f'{{"step": {step}}}\n')
            if step == 2:
                run.save(step, {"w": jnp.arange(3.0)}, {"step": step})
    with open_run(tmp_path, resume=True) as run:
        assert run.resume_step == 2
        assert run.checkpoints.steps() == (2,)
        arrays, document = run.restore({"w": jnp.zeros(3)})
        assert [line["step"] for line in run.figures("train")] == [1, 2]
        assert not (tmp_path / "rollouts" / "step_000003.jsonl").exists()
    assert arrays["w"].tolist() == [0, 1, 2]
    assert document == {"step": 2}


def save_a_step(run: RunDir, step: int, figure: float) -> None:
    run.log("eval", step, {"eval/avg_at_n": figure})
    run.save(step, {"w": jnp.full(3, step)}, {"step": step})


def test_a_run_goes_on_in_a_fresh_directory_from_its_checkpoints_alone(tmp_path):
    apart = CheckpointConfig(directory=str(tmp_path / "apart"))
    with RunDir(tmp_path / "lost", Settings(), apart, resume=False) as run:
        save_a_step(run, 2, 7.5)
    with RunDir(tmp_path / "fresh", Settings(), apart, resume=True) as run:
        arrays, document = run.restore({"w": jnp.zeros(3, int)})
        assert (arrays["w"].tolist(), document) == ([2, 2, 2], {"step": 2})
        assert run.has_logged("eval", 2)
    lines = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("lost", "fresh")]
    assert lines[0] == lines[1]
    with pytest.raises(UserError, match=r"checkpoint\.directory: .*apart holds the checkpoints of a run"):
        RunDir(tmp_path / "third", Settings(), apart, resume=False)
    with (
        RunDir(tmp_path / "fourth", Settings(steps=4), apart, resume=True) as run,
        pytest.raises(UserError, match="steps: step 2 was started with 3, not 4"),
    ):
        run.restore({"w": jnp.zeros(3, int)})


def test_regular_checkpoints_stay_for_good(tmp_path):
    with RunDir(tmp_path, Settings(), CheckpointConfig(keep_last=1, keep_every=3), resume=False) as run:
        for step in range(1, 9):
            save_a_step(run, step, 1.0)
        run.checkpoints.wait()
        assert run.checkpoints.steps() == (3, 6, 8)


def test_a_run_is_found_by_its_directory_and_by_one_of_its_steps(tmp_path):
    apart = CheckpointConfig(directory=str(tmp_path / "apart"))
    with RunDir(tmp_path / "mine@7", Settings(), apart, resume=False):
        pass
    named = str(tmp_path / "mine@7")
    found, earlier = find_run(named), find_run(f"{named}@40")
    assert found is not None and earlier is not None
    assert (found.place, found.step) == (named, None)
    assert (earlier.place, earlier.step) == (named, 40)
    assert found.checkpoints == f"{named}/checkpoints"  # what a run's configuration does not name
    assert find_run(str(tmp_path / "mine")) is find_run(f"{tmp_path}/other@3") is None


def test_a_run_that_was_never_begun_or_saved_is_resumed_from_the_beginning(tmp_path):
    with open_run(tmp_path, resume=True) as run:
        assert run.resume_step is None
        run.log("train", 1, {"x": 1})
    with open_run(tmp_path, resume=True) as run:
        assert run.resume_step is None
        assert run.figures("train") == []


@pytest.mark.parametrize(
    ("settings", "resume", "line"),
    [
        (Settings(), False, "run.directory: .* is not empty; add --resume"),
        (Settings(steps=4), True, "steps: the run in .* was started with 3, not 4"),
        (Settings(rate=None), True, "rate: the run in .* was started with 0.5, not None"),
    ],
)
def test_another_run_is_refused_and_nothing_is_touched(settings, resume, line, tmp_path):
    with open_run(tmp_path) as run:
        run.log("train", 1, {"x": 1})
    before = files(tmp_path)
    with pytest.raises(UserError, match=line):
        open_run(tmp_path, settings, resume=resume)
    assert files(tmp_path) == before


def test_a_run_may_be_moved_and_resumed_on_other_hardware(tmp_path):
    with open_run(tmp_path / "old", Settings(hardware="v5e:2x2")):
        pass
    (tmp_path / "old").rename(tmp_path / "new")
    with open_run(tmp_path / "new", Settings(hardware="v5e:4x4", run=Where(directory="new")), resume=True) as run:
        assert run.resume_step is None


def test_a_directory_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for resume, line in ((False, "is not empty"), (True, "not a run to resume")):
        with pytest.raises(UserError, match=line):
            open_run(tmp_path, resume=resume)
    assert files(tmp_path) == {"notes.txt": b"mine"}


# --- one process at a time ----------------------------------------------------------------------------

HOLDER = """
import sys
from pathlib import Path
from codea1_jax.run.lock import RunLock
lock = RunLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("resume", [False, True])
def test_a_directory_in_use_is_refused_with_its_holder_until_that_process_ends_even_by_a_kill(tmp_path, resume):
    if resume:
        open_run(tmp_path).__exit__()
    pipe = subprocess.PIPE
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], stdin=pipe, stdout=pipe, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        before = files(tmp_path)
        with pytest.raises(UserError, match=f"is in use by process {holder.pid} on .*, since .* delete .*run.lock"):
            open_run(tmp_path, resume=resume)
        assert files(tmp_path) == before
    finally:
        holder.kill()
        holder.communicate(timeout=100)
    with open_run(tmp_path, resume=resume) as run:
        assert run.resume_step is None
        with pytest.raises(UserError, match="is in use by process"):
            open_run(tmp_path, resume=True)
