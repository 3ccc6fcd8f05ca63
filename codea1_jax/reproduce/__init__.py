"""Tables, the paper's and others: which runs a table needs, running what is missing, and the figures side by side."""

__all__ = [
    "commands",
    "dynamics",
    "experiments",
    "forgetting",
    "hypotheses",
    "micro_lab",
    "page",
    "paper_lab",
    "published",
    "results",
    "write",
]
