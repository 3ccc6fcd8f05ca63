"""What a run leaves to others: cards, uploads to the Hugging Face Hub, and results in other tools' forms."""

__all__ = ["cards", "harnesses", "hub", "pytest_files", "tables", "trackers"]
