"""What a run needs of its accelerators, before there are any: memory, and the time of a step, least and expected.

shapes    `workload`: what a step is asked for; `planned_run`: configuration and hardware; `phases`: what is computed
compile   `programs`, lowered for hardware that need not be here (`cuda`), by a `compiler` in its own process (`worker`)
memory    `memory`, by arithmetic, which refuses in milliseconds; then the compiler's own figures
time      `simulation` counts the calls of a step; `hlo` and `kernels` read seconds off what was compiled; `forecast`
          multiplies them; what no compiler knows stands in `assumptions`
table     `plan` puts it all together, `table` prints it, `planned` holds what is shipped of the presets

On top of it, `search` tries other layouts, and `own_run` chooses the settings of a run on your own questions.
"""
