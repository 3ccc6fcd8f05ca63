"""What every run needs: typed configuration, checkpoints, telemetry and the report."""
