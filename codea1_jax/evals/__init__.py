"""Evaluation: how good the Code LLM's programs and the Test LLM's tests are on questions that were not trained on."""

__all__ = [
    "code",
    "collaboration",
    "conversations",
    "during_training",
    "endpoint",
    "heldout",
    "journal",
    "paper",
    "pytest_jobs",
    "rounds",
    "samples",
    "suites",
]
