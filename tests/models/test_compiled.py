"""What libtpu makes of flash kernels and of gradients."""

from pathlib import Path

import pytest
from workers import found_by, start_worker

from codea1_jax.models.published import QWEN25

WORKER = Path(__file__).with_name("compiled.py")
TOPOLOGIES = ("v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1")
KINDS = "v5e", "v5p", "v6e"
TENSOR = 1, 2, 4, 8  # devices that may share the vocabulary

pytestmark = pytest.mark.long


def test_libtpu_compiles_each_kernel_once_and_nothing_is_as_large_as_all_scores():
    """Layers are scanned, so a kernel that is repeated in the backward pass would be there twice."""
    kernels = {"flash_backward_kv": 1, "flash_backward_q": 1, "flash_forward": 1}
    found = found_by(start_worker(WORKER, "flash", *TOPOLOGIES))
    assert found == [[topology, kernels, []] for topology in TOPOLOGIES]


@pytest.mark.parametrize("kind", KINDS)
def test_the_demo_compiles_and_writes_each_row_of_a_gradient_once(kind):
    learned, sampled = f"micro/a1=gradient code@{kind}", f"micro/a1=decode code@{kind}"
    found = found_by(start_worker(WORKER, "gradients", learned, sampled))
    assert found.keys() == {learned, sampled}
    assert found[learned] and all(unique for _, _, unique in found[learned])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", ["1.5b", "7b"])
def test_no_gradient_of_a_preset_rounds_the_sums_of_the_vocabulary(size, kind):
    (written,) = found_by(start_worker(WORKER, "gradients", f"{size}/a1_{kind}=gradient test")).values()
    assert all(unique for _, _, unique in written)
    vocab = QWEN25[size].vocab_size
    assert [dtype for dtype, sizes, _ in written if vocab in [sizes[0] * tensor for tensor in TENSOR]] == ["f32"]
