"""What libtpu makes of gradients: a table's rows are summed in float32, and each sum is written once."""

from pathlib import Path

import pytest
from workers import found_by, start_worker

from codea1_jax.models.published import QWEN25

WORKER = Path(__file__).with_name("compiled_gradients.py")
KINDS = "v5e", "v5p", "v6e"
TENSOR = 1, 2, 4, 8  # devices that may share the vocabulary

pytestmark = pytest.mark.long


def written_by(*programs):
    return found_by(start_worker(WORKER, *programs))


@pytest.mark.parametrize("kind", KINDS)
def test_the_demo_compiles_and_writes_each_row_of_a_gradient_once(kind):
    learned, sampled = f"micro/a1=gradient code@{kind}", f"micro/a1=decode code@{kind}"
    found = written_by(learned, sampled)
    assert found.keys() == {learned, sampled}
    assert found[learned] and all(unique for _, _, unique in found[learned])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", ["1.5b", "7b"])
def test_no_gradient_of_a_preset_rounds_the_sums_of_the_vocabulary(size, kind):
    (written,) = written_by(f"{size}/a1_{kind}=gradient test").values()
    assert all(unique for _, _, unique in written)
    vocab = QWEN25[size].vocab_size
    assert [dtype for dtype, sizes, _ in written if vocab in [sizes[0] * tensor for tensor in TENSOR]] == ["f32"]
