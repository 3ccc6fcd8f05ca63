"""What a run needs of its accelerators, before there are any: memory, FLOPs, collectives and a floor of its step time.

`hardware` knows the chips, `workload` what a step computes, `memory` what a chip must hold at least. `compiler`
compiles the run's own jitted phases for a TPU topology in a separate process (`worker`), `collectives` reads what the
chips send each other from the compiled program, and `plan` puts all of it together.
"""
