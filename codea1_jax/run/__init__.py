"""A run's directory: its configuration, metrics, rollouts, versions and summary."""
