"""Accelerators, how arrays lie on them, and what waits in host memory."""
