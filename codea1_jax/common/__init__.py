"""What every room uses: errors, files, and what people see."""

__all__ = ["activity", "chips", "console", "errors", "files", "words"]
