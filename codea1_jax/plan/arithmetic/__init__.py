"""What a step does, and the least that it needs, by arithmetic: no compiler is asked.

`workload` says what a step is asked for, `phases` what that computes and moves, `memory` what a device must hold at
least; `simulation` counts the calls of a step over drawn or measured `lengths`.
"""

__all__ = ["lengths", "memory", "planned_run", "workload"]
