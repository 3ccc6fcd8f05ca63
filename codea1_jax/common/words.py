def counted(number: int, noun: str) -> str:
    """`1 question`, `2 questions`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
