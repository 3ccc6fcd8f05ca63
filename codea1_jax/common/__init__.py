"""What every room uses: errors, files, what people see, and the figures of accelerators."""

__all__ = ["activity", "chips", "console", "errors", "files", "words"]
