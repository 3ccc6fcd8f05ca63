"""The TPU kernel for caches in pages compiles at a real decoding's shapes, and its loop never copies a store."""

from pathlib import Path

import paged_programs
from workers import found_by, start_worker

TOPOLOGIES = ("v5e:2x2", "v5p:2x2x1", "v6e:2x2")


def test_libtpu_compiles_the_kernel_and_copies_no_store():
    found = found_by(start_worker(Path(paged_programs.__file__), *TOPOLOGIES))
    assert found == {topology: [[kernels, []] for kernels in paged_programs.KERNELS] for topology in TOPOLOGIES}
