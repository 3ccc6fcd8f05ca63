"""What `codea1 plan --calibrate` measured on a device, for later plans: how long its programs really take."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path

from codea1_jax.common.errors import UserError

Ratios = Mapping[str, float]
"""Measured to expected seconds of the calls of a phase, by its name."""


def read_calibration(file: Path) -> Ratios:
    """Reads what `codea1 plan PRESET --calibrate --json` printed on a device. Raises UserError if it is none."""
    try:
        phases = json.loads(file.read_text(encoding="utf-8"))["phases"]
        ratios = {phase: measured["measured_to_expected"] for phase, measured in phases.items()}
    except OSError as error:
        raise UserError(f"--calibration {file}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"--calibration {file}: not what codea1 plan --calibrate --json prints") from error
    if not ratios or not all(isinstance(ratio, float) and ratio > 0 for ratio in ratios.values()):
        raise UserError(f"--calibration {file}: measured on devices without published figures, such as a CPU")
    return ratios


def ratio_of(phase: str, ratios: Ratios) -> float:
    """By what a phase's forecast is multiplied: its own ratio, or the mean one of its kind, or 1."""
    kind = phase.split(maxsplit=1)[0]
    alike = [ratio for name, ratio in ratios.items() if name.split(maxsplit=1)[0] == kind]
    return ratios.get(phase) or (statistics.mean(alike) if alike else 1.0)
