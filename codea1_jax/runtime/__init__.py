"""What a run stands on: devices and how arrays lie on them, several hosts as one run, arrays on disk."""
