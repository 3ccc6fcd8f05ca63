"""The TPU kernel for caches in pages compiles at a real decoding's shapes, and its loop never copies a store."""

from pathlib import Path

import paged_programs
import pytest
from workers import found_by, start_worker

pytestmark = pytest.mark.long

TOPOLOGIES = ("v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1")


def check(kernels, sizes):
    found = found_by(start_worker(Path(paged_programs.__file__), sizes, *TOPOLOGIES))
    assert found == {topology: [[count, []] for count in kernels] for topology in TOPOLOGIES}


def test_libtpu_compiles_the_kernel_and_copies_no_store():
    check(paged_programs.KERNELS, "sizes")


def test_libtpu_compiles_it_for_evaluations_of_any_number_of_samples():
    check(paged_programs.EVALUATED_KERNELS, "evaluated")
