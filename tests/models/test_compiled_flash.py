"""libtpu compiles the flash kernels; a backward pass repeats none of them, and stores nothing for pairs of places."""

from pathlib import Path

import pytest
from workers import found_by, start_worker

WORKER = Path(__file__).with_name("compiled_flash.py")
TOPOLOGIES = ("v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1")


@pytest.mark.long
def test_libtpu_compiles_each_kernel_once_and_nothing_is_as_large_as_all_scores():
    """Layers are scanned, so a kernel that is repeated in the backward pass would be there twice."""
    kernels = {"flash_backward_kv": 1, "flash_backward_q": 1, "flash_forward": 1}
    assert found_by(start_worker(WORKER, *TOPOLOGIES)) == [[topology, kernels, []] for topology in TOPOLOGIES]
