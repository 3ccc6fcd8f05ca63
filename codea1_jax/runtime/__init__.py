"""What a run stands on: devices and how arrays lie on them, several hosts as one run, arrays on disk."""

__all__ = [
    "agreement",
    "checkpoints",
    "devices",
    "fingerprint",
    "gather",
    "interrupts",
    "join",
    "layout",
    "offload",
    "stalls",
    "storage",
]
