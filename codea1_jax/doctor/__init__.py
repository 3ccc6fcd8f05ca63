"""Before a run: `codea1 doctor` (what a host has and lacks, and what a run needs of it), `selftest`, `rehearsal`.

`host` imports nothing of the accelerator stack until it knows that its versions match; `run` needs all of it.
"""
