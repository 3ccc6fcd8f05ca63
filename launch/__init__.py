"""From a clone to TPUs: `python -m launch tpu`, described in docs/launch.md; commands are data."""
