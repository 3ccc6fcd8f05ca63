"""Every figure of a forecast that neither a data sheet nor a compiler states: assumed, or measured elsewhere."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Efficiency:
    """The shares of a device's published figures that kernels reach, by what bounds them, and what starting one costs.

    cache: of the bandwidth, where attention reads pages. launch: seconds from the end of one kernel to the start of the
    next.
    """

    matrix: float
    attention: float
    memory: float
    cache: float
    interconnect: float
    launch: float


PEAK = Efficiency(matrix=1.0, attention=1.0, memory=1.0, cache=1.0, interconnect=1.0, launch=0.0)
# Assumptions until they are measured on a device; none of them has been. GPUs: XLA's own matrix kernels without
# autotuning, attention written in Triton, memory-bound fusions, NCCL over NVLink, the kernels of one CUDA graph. TPUs:
# libtpu states the cycles of all but Pallas's kernels, and those need no launch.
EFFICIENCY = {
    "cpu": PEAK,  # of figures that were measured (`cpu_hardware`)
    "gpu": Efficiency(matrix=0.6, attention=0.4, memory=0.8, cache=0.6, interconnect=0.75, launch=2e-6),
    "tpu": Efficiency(matrix=0.7, attention=0.5, memory=0.8, cache=0.7, interconnect=0.75, launch=0.0),
}

# Cycles in which a TPU's flash kernels compute a tile of 512 x 512 places for a head of 128 numbers, by libtpu's final
# schedule, a bundle taken as a cycle (docs/planning.md): forward, the gradient of the queries, that of the keys and
# values. Of a tile that is masked and not on the diagonal; without a mask it takes up to 15% less, on the diagonal up
# to 22% more.
TILE_HEAD_DIM = 128
TILE_CYCLES = {"v5e": (1848, 1827, 2203), "v5p": (959, 937, 1179), "v6e": (1538, 1305, 1527)}

# The host's part of a call: it dispatches and reads back, which is assumed; and after a block it decides who is next.
# That, for each row, scoring and recording, for each token drawn, and packing, for each token learned, take what one
# core of a laptop took (BENCHMARKS.md).
HOST_SECONDS = 1e-3
ROW_SECONDS = 2e-6
SCORED_SECONDS = 7e-8
PACKED_SECONDS = 1.7e-7
# `make bench-sandbox` on two cores of a laptop: 660 programs per second.
JUDGED_PER_CORE = 330

# Assumed: a device's copy to its host over PCIe, and a host's upload to a bucket.
COPIED_PER_SECOND = 10e9
WRITTEN_PER_SECOND = 1e9
# What a first start takes to read weights and to compile. Measured (BENCHMARKS.md): SmolLM2 on two CPU cores, and on an
# H200, whose later steps compiled some more. Assumed of TPUs: libtpu takes 3 to 10 minutes on two cores of a laptop.
START_SECONDS = {"cpu": 400.0, "gpu": 120.0, "tpu": 600.0}
# A GPU decodes a token in no less for each layer, however few the rows and small the layer: SmolLM2 took 4.3 ms for its
# 30 layers on an H200. On other devices it is not known.
LAYER_SECONDS = {"cpu": 0.0, "gpu": 1.4e-4, "tpu": 0.0}
