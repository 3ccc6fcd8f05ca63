"""Machines with NVIDIA GPUs that are not here, described for XLA's CUDA compiler.

The compiler needs no driver and no GPU, only `jax-cuda12-pjrt`, `jax-cuda12-plugin` and `nvidia-cuda-nvcc-cu12`, and
JAX_PLATFORMS=cpu in the environment, without which JAX looks for a driver.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jax.experimental import topologies

from codea1_jax.common.chips import GPUS_PER_HOST, Hardware

CUDNN = (9, 8)  # the oldest that jax-cuda12-plugin takes


@dataclass(frozen=True)
class Architecture:
    """What all GPUs of one compute capability share.

    shared: KiB of shared memory of a multiprocessor; a block may ask for one less. threads: resident on it.
    """

    shared: int
    fpus: int
    threads: int = 2048


@dataclass(frozen=True)
class Card:
    """A GPU as its data sheet has it, besides what `CHIPS` says. l2: MiB of cache. clock: GHz, boosted."""

    multiprocessors: int
    l2: int
    clock: float


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
ARCHITECTURES = {
    (8, 0): Architecture(shared=164, fpus=64),
    (8, 6): Architecture(shared=100, fpus=128, threads=1536),
    (8, 9): Architecture(shared=100, fpus=128, threads=1536),
    (9, 0): Architecture(shared=228, fpus=128),
    (10, 0): Architecture(shared=228, fpus=128),
    (12, 0): Architecture(shared=100, fpus=128, threads=1536),
}
ACCELERATED = (9, 0)  # the capability from which on XLA may use what later ones lack (`sm_90a`)

# NVIDIA's white papers on the A100, H100 (SXM5), GA102, Ada and Blackwell, and the cards' data sheets.
CARDS = {
    "a100-40": Card(multiprocessors=108, l2=40, clock=1.41),
    "a100-80": Card(multiprocessors=108, l2=40, clock=1.41),
    "h100": Card(multiprocessors=132, l2=50, clock=1.98),
    "h200": Card(multiprocessors=132, l2=50, clock=1.98),
    "b200": Card(multiprocessors=148, l2=126, clock=1.965),
    "rtx-3090": Card(multiprocessors=82, l2=6, clock=1.695),
    "rtx-4090": Card(multiprocessors=128, l2=72, clock=2.52),
    "rtx-5090": Card(multiprocessors=170, l2=96, clock=2.407),
    "a10": Card(multiprocessors=72, l2=6, clock=1.695),
    "a6000": Card(multiprocessors=84, l2=6, clock=1.8),
    "l4": Card(multiprocessors=58, l2=48, clock=2.04),
    "l40s": Card(multiprocessors=142, l2=96, clock=2.52),
}

# A GpuTargetConfigProto (xla/stream_executor/device_description.proto).
TARGET = """
gpu_device_info {{
  cuda_compute_capability {{ major: {capability[0]} minor: {capability[1]} {features} }}
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: {architecture.threads}
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  shared_memory_per_core: {shared}
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: {optin}
  fpus_per_core: {architecture.fpus}
  core_count: {card.multiprocessors}
  clock_rate_ghz: {card.clock}
  l2_cache_size: {l2}
  device_memory_size: {memory}
  memory_bandwidth: {bandwidth}
}}
platform_name: "CUDA"
dnn_version_info {{ major: {cudnn[0]} minor: {cudnn[1]} }}
device_description_str: "{name}"
"""


def target_config(hardware: Hardware) -> str:
    card, capability = CARDS[hardware.kind], hardware.chip.capability
    assert capability is not None  # every GPU has one
    architecture = ARCHITECTURES[capability]
    return TARGET.format(
        card=card,
        architecture=architecture,
        capability=capability,
        features="feature_extension: ACCELERATED_FEATURES" if capability >= ACCELERATED else "",
        shared=architecture.shared * 1024,
        optin=(architecture.shared - 1) * 1024,
        l2=card.l2 * 2**20,
        memory=hardware.chip.memory * 10 // 9,  # JAX may use nine tenths
        bandwidth=int(hardware.chip.bandwidth),
        cudnn=CUDNN,
        name=hardware.chip.kinds[0],
    )


def absent_gpus(hardware: Hardware) -> Sequence[Any]:
    """Devices to trace and compile for, at most eight to a node.

    Raises NotImplementedError if the compiler is not installed.
    """
    per_node = math.gcd(hardware.devices, GPUS_PER_HOST)
    described = topologies.get_topology_desc(
        platform="cuda",
        topology_name="",
        target_config=target_config(hardware),
        topology=f"1x{hardware.devices // per_node}x{per_node}",  # slices, nodes, devices of a node
    )
    return described.devices
