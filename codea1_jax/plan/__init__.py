"""What a run needs of its accelerators, before there are any: memory, and the time of a step, least and expected.

`arithmetic` knows without a compiler what the phases of a step compute, the least time of that, and what a device must
hold at least. `compiled` compiles the run's own phases for TPUs and GPUs that are not here, and reads seconds off the
compilers' output. `forecast` multiplies them by the calls of a step, `whole_run` looks beyond it, and `plan` puts all
of it together; what none of them can know stands in `assumptions`. `search` tries other layouts, `calibrate` measures
instead of compiling. `own_run` chooses the settings of a run on your own questions. `planned` keeps what was found out
about the shipped presets.
"""

__all__ = [
    "arithmetic",
    "assumptions",
    "calibrate",
    "compiled",
    "own_run",
    "plan",
    "planned",
    "search",
    "table",
]
