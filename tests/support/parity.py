"""The fixture of original formulas: inputs and outputs that this project reproduces to 1e-6."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any


@functools.cache
def load_parity() -> dict[str, Any]:
    """The file that PARITY_FIXTURES names, or the one shipped here: `rewards`, `mistake_book` and `grpo`."""
    path = os.environ.get("PARITY_FIXTURES") or Path(__file__).parents[1] / "fixtures" / "parity.json"
    return json.loads(Path(path).read_text(encoding="utf-8"))
