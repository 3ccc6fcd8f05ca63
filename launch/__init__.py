"""From a clone to TPUs: `python -m launch tpu`, described in launch/README.md; commands are data."""
