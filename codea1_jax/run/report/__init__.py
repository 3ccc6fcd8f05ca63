"""The report: a run, or several side by side, as one HTML page that opens from disk without a network."""

from codea1_jax.run.report.page import build_report, follow_report

__all__ = ["build_report", "follow_report", "page"]
