"""What a run needs of its accelerators, before there are any: memory, and the time of a step, least and expected.

`workload` says what a step computes, `memory` what a device must hold at least. `compiler` compiles the run's own
phases in a separate process (`worker`), for TPUs and for GPUs (`cuda`) that are not there. From a compiled program's
text (`hlo`), `collectives` reads what devices send each other and `kernels` what they run; `duration` makes seconds of
both. `simulation` counts the calls of a step over drawn or measured `lengths`, `forecast` multiplies, and `plan` puts
all of it together. `planned` keeps what was found out about the shipped presets.
"""
