"""The shipped presets: YAML files, read by `codea1_jax.run.config`."""
