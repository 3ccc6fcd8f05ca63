"""A run: what it is made of, its state, its methods, and the loop."""

__all__ = [
    "advice",
    "answers",
    "checks",
    "convert",
    "judges",
    "loop",
    "parts",
    "questions",
    "sources",
    "start",
    "state",
    "trainer",
]
