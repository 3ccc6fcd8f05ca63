"""From a clone to TPUs and GPUs: `python -m launch`, described in launch/README.md.

Commands are data: `tpu`, `gke` and `gpu` are pure and return the commands of each step; `shell` runs commands or prints
them; `supervise` decides which comes next.
"""
