"""The paper's tables, reproduced: which runs a table needs, running what is missing, and the figures side by side."""

__all__ = [
    "commands",
    "dynamics",
    "experiments",
    "micro_lab",
    "page",
    "paper_lab",
    "published",
    "results",
    "runners",
    "write",
]
