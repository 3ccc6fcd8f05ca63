"""From a clone to TPUs and GPUs: `python -m launch`, described in launch/README.md.

Commands are data: `tpu`, `gke`, `slurm` and `gpu` are pure and say which commands each step consists of; `shell` runs
them or prints them; `supervise` decides which comes next.
"""
