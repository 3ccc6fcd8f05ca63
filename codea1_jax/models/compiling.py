"""Compiler options that are off by default and make a gradient faster."""

import os

from codea1_jax.common.chips import CHIPS

# With these a v5e sums the gradients of activations over `tensor` while it computes those of weights: two of the five
# such sums of a layer are hidden. By `codea1 plan` two chips, whose sums are short, gain nothing, and a v6e's matrix
# products take longer by more than is gained.
_WORTH_HIDING = 4  # chips of the `tensor` axis
_SUMS_WHILE_COMPUTING = ("xla_enable_async_all_reduce", "xla_tpu_enable_async_collective_fusion_fuse_all_reduce")


def gradient_options(kind: str, tensor: int) -> dict[str, bool]:
    """What to compile with for a device (`jax.Device.device_kind`) in a mesh with a `tensor` axis of this size.

    What LIBTPU_INIT_ARGS names is left to it, also where libtpu no longer knows an option.
    """
    if tensor < _WORTH_HIDING or kind not in CHIPS["v5e"].kinds:
        return {}
    given = os.environ.get("LIBTPU_INIT_ARGS", "")
    return {option: True for option in _SUMS_WHILE_COMPUTING if option not in given}
