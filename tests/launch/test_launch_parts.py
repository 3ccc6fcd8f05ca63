"""Names of slices and locations."""

import pytest

from codea1_jax.common.chips import CHIPS
from launch.hardware import KINDS, find_slice
from launch.shell import Answer, LaunchError
from launch.tpu import read_state, read_training


@pytest.mark.parametrize(
    ("name", "accelerator"),
    [  # cloud.google.com/tpu/docs: configurations of v4, v5e, v5p and v6e
        ("v4:2x2x1", "v4-8"),
        ("v4:2x2x4", "v4-32"),
        ("v5e:1x1", "v5litepod-1"),
        ("v5e:2x4", "v5litepod-8"),
        ("v5e:4x4", "v5litepod-16"),
        ("v5e:16x16", "v5litepod-256"),
        ("v5p:2x2x1", "v5p-8"),
        ("v5p:4x4x4", "v5p-128"),
        ("v6e:8x8", "v6e-64"),
    ],
)
def test_slices_are_what_google_cloud_calls_them(name, accelerator):
    assert find_slice(name).accelerator_type == accelerator


def test_every_kind_of_tpu_can_be_launched_except_tpu7x_which_is_on_gke_alone():
    assert KINDS.keys() == {kind for kind, chip in CHIPS.items() if chip.dimensions} - {"tpu7x"}


def test_a_missing_answer_is_an_error_and_not_a_state():
    with pytest.raises(LaunchError, match="unknown: ERROR: deadline exceeded"):
        read_state(Answer(1, "", "ERROR: deadline exceeded\n"))
    with pytest.raises(LaunchError, match="cannot be reached: exit code 0"):
        read_training(Answer(0, "", ""))
    with pytest.raises(LaunchError, match="cannot be reached"):
        read_training(Answer(255, "training: exit 0\n", "one of two did not answer\n"))
