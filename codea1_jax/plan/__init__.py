"""What a run needs of its accelerators, before there are any: memory, and the time of a step, least and expected.

`arithmetic` knows without a compiler what a step computes and what a device must hold at least. `compiled` compiles the
run's own phases for TPUs and GPUs that are not here, and reads seconds off the compilers' output. `forecast` multiplies
them by the calls of a step, `limit` and `whole_run` look below and beyond it, and `plan` puts all of it together.
`search` tries other layouts, `calibrate` measures instead of compiling. `planned` keeps what was found out about the
shipped presets, and `comparison` holds a real step against that.
"""
