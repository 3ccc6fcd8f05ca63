"""Saving and restoring training state: steps, fingerprints, retention, buckets, and what waits in host memory."""
