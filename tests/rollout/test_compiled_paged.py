"""The TPU kernel for caches in pages compiles at a real decoding's shapes, and its loop never copies a store."""

from pathlib import Path

import paged_programs
import pytest
from workers import found_by, start_worker

TOPOLOGIES = ("v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1")


def check(kernels, sizes, topologies=TOPOLOGIES):
    found = found_by(start_worker(Path(paged_programs.__file__), sizes, *topologies))
    assert found == {topology: [[count, []] for count in kernels] for topology in topologies}


def test_libtpu_compiles_the_kernel_and_copies_no_store():
    check(paged_programs.QUICK_KERNELS, "quick", TOPOLOGIES[:1])


@pytest.mark.long
def test_it_does_for_every_tpu():
    check(paged_programs.KERNELS, "sizes")


@pytest.mark.long
def test_libtpu_compiles_it_for_evaluations_of_any_number_of_samples():
    check(paged_programs.EVALUATED_KERNELS, "evaluated")
