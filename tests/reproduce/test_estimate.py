"""How long the missing commands will take: by their like where there is any, else by a guess."""

from pathlib import Path

import pytest

from codea1_jax.reproduce.commands import Command
from codea1_jax.reproduce.estimate import EVALUATION_SECONDS, estimate, guess


def command(folder: Path, name: str, *, took: float | None = None, kind: str = "train") -> Command:
    made = Command(folder / name, (kind,), "done.json")
    if took is not None:
        made.directory.mkdir(parents=True)
        (made.directory / made.done).touch()
        made.clock.write_text(f"{took}\n")
    return made


def test_what_is_missing_takes_as_long_as_its_like_did(tmp_path):
    done = [command(tmp_path, "a1-seed0", took=100.0), command(tmp_path, "a1-seed1", took=140.0)]
    missing = [command(tmp_path, f"a1-seed{seed}") for seed in (2, 3, 4)]
    expected = estimate([*done, *missing], 60, 2)
    assert (expected.seconds, expected.measured) == (3 * 120 / 2, 3)
    assert estimate(done, 60, 2).seconds == 0


def test_what_has_no_like_is_guessed_by_its_steps(tmp_path):
    missing = [command(tmp_path, "golden-seed0"), command(tmp_path, "suites-a1-seed0", kind="eval")]
    expected = estimate(missing, 60, 1)
    assert expected.measured == 0
    assert expected.seconds == pytest.approx(guess(missing[0], 60) + EVALUATION_SECONDS)
    per_step = guess(missing[0], 61) - guess(missing[0], 60)
    assert 0 < per_step < guess(command(tmp_path, "a1-seed0"), 61) - guess(command(tmp_path, "a1-seed0"), 60)
