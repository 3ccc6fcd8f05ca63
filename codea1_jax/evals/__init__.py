"""Evaluation: how good the Code LLM's programs and the Test LLM's tests are on questions that were not trained on."""

__all__ = [
    "code",
    "collaboration",
    "during_training",
    "endpoint",
    "heldout",
    "journal",
    "paper",
    "paper_reading",
    "pytest_jobs",
    "samples",
    "suites",
]
