"""Compiler options that are off by default and make a gradient faster."""

from __future__ import annotations

import logging
import os

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from codea1_jax.common.chips import CHIPS
from codea1_jax.models.sharding import jit_on, replicated

logger = logging.getLogger(__name__)

# With these a v5e sums the gradients of activations over `tensor` while it computes those of weights: two of the five
# such sums of a layer are hidden. By `codea1 plan` two chips, whose sums are short, gain nothing, and a v6e's matrix
# products take longer by more than is gained.
_WORTH_HIDING = 4  # chips of the `tensor` axis
_SUMS_WHILE_COMPUTING = ("xla_enable_async_all_reduce", "xla_tpu_enable_async_collective_fusion_fuse_all_reduce")


def gradient_options(kind: str, tensor: int) -> dict[str, bool]:
    """What to compile with for a device (`jax.Device.device_kind`) in a mesh with a `tensor` axis of this size.

    What LIBTPU_INIT_ARGS names is left to it.
    """
    if tensor < _WORTH_HIDING or kind not in CHIPS["v5e"].kinds:
        return {}
    given = os.environ.get("LIBTPU_INIT_ARGS", "")
    return {option: True for option in _SUMS_WHILE_COMPUTING if option not in given}


def known_options(mesh: Mesh, options: dict[str, bool]) -> dict[str, bool]:
    """Those of the options that the compiler for the mesh's devices knows; a log line names each other one."""
    known = {}
    for option, value in options.items():
        nothing = jit_on(mesh, lambda: jnp.zeros(()), out_shardings=replicated(mesh), compiler_options={option: value})
        try:
            nothing.lower().compile()
        except jax.errors.JaxRuntimeError as error:
            if "No such compile option" not in str(error):
                raise
            logger.warning("this version's compiler does not know %s: gradients are compiled without it", option)
        else:
            known[option] = value
    return known
