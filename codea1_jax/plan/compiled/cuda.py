"""Machines with NVIDIA GPUs that are not here, described for XLA's CUDA compiler.

The compiler needs no driver and no GPU, only `jax-cuda12-pjrt`, `jax-cuda12-plugin` and `nvidia-cuda-nvcc-cu12`, and
JAX_PLATFORMS=cpu in the environment, without which JAX looks for a driver.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jax.experimental import topologies

from codea1_jax.devices.chips import Hardware

CUDNN = (9, 8)  # the oldest that jax-cuda12-plugin takes
GPUS_PER_NODE = 8


@dataclass(frozen=True)
class Architecture:
    """What all GPUs of one compute capability share. shared, optin: bytes of shared memory, of a multiprocessor and the
    most that a block may ask for. threads: resident on a multiprocessor. features: whether XLA may use what later
    capabilities lack (`sm_90a`).
    """

    capability: tuple[int, int]
    shared: int
    optin: int
    fpus: int
    features: bool
    threads: int = 2048


@dataclass(frozen=True)
class Card:
    """A GPU as its data sheet has it. memory: bytes. l2: bytes of cache. clock: GHz, boosted."""

    architecture: Architecture
    multiprocessors: int
    memory: int
    l2: int
    clock: float


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
_SMALL = {"shared": 100 * 1024, "optin": 99 * 1024, "fpus": 128, "threads": 1536}
AMPERE = Architecture((8, 0), shared=164 * 1024, optin=163 * 1024, fpus=64, features=False)
AMPERE_RTX = Architecture((8, 6), **_SMALL, features=False)
ADA = Architecture((8, 9), **_SMALL, features=False)
HOPPER = Architecture((9, 0), shared=228 * 1024, optin=227 * 1024, fpus=128, features=True)
BLACKWELL = Architecture((10, 0), shared=228 * 1024, optin=227 * 1024, fpus=128, features=True)
BLACKWELL_RTX = Architecture((12, 0), **_SMALL, features=True)

# NVIDIA's white papers on the A100, H100 (SXM5), GA102, Ada and Blackwell, and the cards' data sheets.
CARDS = {
    "a100-40": Card(AMPERE, multiprocessors=108, memory=40 * 10**9, l2=40 * 2**20, clock=1.41),
    "a100-80": Card(AMPERE, multiprocessors=108, memory=80 * 10**9, l2=40 * 2**20, clock=1.41),
    "h100": Card(HOPPER, multiprocessors=132, memory=80 * 10**9, l2=50 * 2**20, clock=1.98),
    "h200": Card(HOPPER, multiprocessors=132, memory=141 * 10**9, l2=50 * 2**20, clock=1.98),
    "b200": Card(BLACKWELL, multiprocessors=148, memory=180 * 10**9, l2=126 * 2**20, clock=1.965),
    "rtx-3090": Card(AMPERE_RTX, multiprocessors=82, memory=24 * 10**9, l2=6 * 2**20, clock=1.695),
    "rtx-4090": Card(ADA, multiprocessors=128, memory=24 * 10**9, l2=72 * 2**20, clock=2.52),
    "rtx-5090": Card(BLACKWELL_RTX, multiprocessors=170, memory=32 * 10**9, l2=96 * 2**20, clock=2.407),
    "a10": Card(AMPERE_RTX, multiprocessors=72, memory=24 * 10**9, l2=6 * 2**20, clock=1.695),
    "a6000": Card(AMPERE_RTX, multiprocessors=84, memory=48 * 10**9, l2=6 * 2**20, clock=1.8),
    "l4": Card(ADA, multiprocessors=58, memory=24 * 10**9, l2=48 * 2**20, clock=2.04),
    "l40s": Card(ADA, multiprocessors=142, memory=48 * 10**9, l2=96 * 2**20, clock=2.52),
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
  shared_memory_per_core: {architecture.shared}
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: {architecture.optin}
  fpus_per_core: {architecture.fpus}
  core_count: {card.multiprocessors}
  clock_rate_ghz: {card.clock}
  l2_cache_size: {card.l2}
  device_memory_size: {card.memory}
  memory_bandwidth: {bandwidth}
}}
platform_name: "CUDA"
dnn_version_info {{ major: {cudnn[0]} minor: {cudnn[1]} }}
device_description_str: "{name}"
"""


def target_config(hardware: Hardware) -> str:
    """XLA's description of one of the GPUs, in protobuf's text form."""
    card = CARDS[hardware.kind]
    features = "feature_extension: ACCELERATED_FEATURES" if card.architecture.features else ""
    return TARGET.format(
        card=card,
        architecture=card.architecture,
        capability=card.architecture.capability,
        features=features,
        bandwidth=int(hardware.chip.bandwidth),
        cudnn=CUDNN,
        name=hardware.chip.kinds[0],
    )


def absent_gpus(hardware: Hardware) -> Sequence[Any]:
    """Devices to trace and compile for, at most eight to a node.

    Raises NotImplementedError if the compiler is not installed.
    """
    per_node = math.gcd(hardware.devices, GPUS_PER_NODE)
    described = topologies.get_topology_desc(
        platform="cuda",
        topology_name="",
        target_config=target_config(hardware),
        topology=f"1x{hardware.devices // per_node}x{per_node}",  # slices, nodes, devices of a node
    )
    return described.devices
