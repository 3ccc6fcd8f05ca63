"""How long the missing commands will take: by their like where there is any, else by a guess."""

from pathlib import Path

from codea1_jax.reproduce.commands import Command
from codea1_jax.reproduce.estimate import estimate
from codea1_jax.reproduce.experiments import trained
from codea1_jax.reproduce.micro_lab import MicroLab


def command(folder: Path, name: str, *, took: float | None = None, expected: float | None = None) -> Command:
    made = Command(folder / name, ("codea1",), "done.json", "training", expected=expected)
    if took is not None:
        made.directory.mkdir(parents=True)
        (made.directory / made.done).touch()
        made.clock.write_text(f"{took}\n")
    return made


def test_what_is_missing_takes_as_long_as_its_like_did(tmp_path):
    done = [command(tmp_path, "a1-seed0", took=100.0), command(tmp_path, "a1-seed1", took=140.0)]
    missing = [command(tmp_path, f"a1-seed{seed}", expected=7.0) for seed in (2, 3, 4)]
    found = estimate([*done, *missing])
    assert (found.seconds, found.measured, found.unknown) == (3 * 120, 3, 0)
    assert estimate(done).seconds == 0


def test_what_has_no_like_takes_what_is_expected_of_it_and_else_is_unknown(tmp_path):
    done = command(tmp_path, "golden-seed0", took=100.0)
    missing = [command(tmp_path, "suites-a1-seed0", expected=30.0), command(tmp_path, "kodcode")]
    found = estimate([done, *missing])
    assert (found.seconds, found.measured, found.unknown) == (30, 0, 1)


def test_steps_of_two_roles_are_expected_to_take_longest_in_the_micro_world(tmp_path):
    def seconds(method: str, steps: int) -> float:
        run = trained(MicroLab(tmp_path, steps=steps), method, 0).run
        assert run is not None and run.expected is not None
        return run.expected

    per_step = {method: seconds(method, 61) - seconds(method, 60) for method in ("sft", "golden", "a1")}
    assert 0 < per_step["sft"] < per_step["golden"] < per_step["a1"]
    assert seconds("base", 60) == seconds("base", 61)
