"""A run's directory, and what is made of it: metrics, rollouts, a summary, the report, uploads."""
