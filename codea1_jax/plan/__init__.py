"""What a run needs of its accelerators, before there are any: memory, FLOPs, collectives and a floor of its step time.

`hardware` knows the chips, `workload` what a step computes, `memory` what must lie on a chip at the least. `compiler`
compiles the run's own jitted phases for a TPU topology in a process of its own (`worker`), `collectives` reads what the
chips say to each other from the compiled program, and `plan` puts all of it together.
"""
