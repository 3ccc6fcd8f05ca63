"""From a clone to TPUs and GPUs: `python -m launch`, described in launch/README.md.

A platform is a class with a method for each step. Its commands are data, which `shell` runs or prints.
"""
