"""A run's directory: its configuration, metrics, rollouts, versions and summary; the page and the uploads made of it."""
