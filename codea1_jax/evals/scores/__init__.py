"""Metrics of programs and tests, judged in the sandbox."""
