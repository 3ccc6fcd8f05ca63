"""The judge's own side of the jail: starts it, feeds it, and decides verdicts. Trusts no byte that comes out of it."""

__all__ = ["doctor", "pool"]
