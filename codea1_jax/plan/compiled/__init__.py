"""A run's programs, compiled for hardware that need not be here, and what the compilers' output says of them.

`compiler` compiles `programs` in a separate process (`worker`), for TPUs and for GPUs (`cuda`). From a compiled
program's text (`hlo`), `collectives` reads what devices send each other, and `kernels` what they run, and the seconds.
"""

__all__ = ["compiler"]
