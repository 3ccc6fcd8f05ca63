"""Refreshes docs/fidelity.md: parameter by parameter the paper, its code, the presets MODEL/METHOD_paper, the defaults.

What the paper and its code do stands in the page itself. Of a row with a key, the last two columns are the presets'
values.
"""

import re
from pathlib import Path
from typing import Any

from codea1_jax.config import Config, load

TARGET = Path(__file__).parent.parent / "docs" / "fidelity.md"
PAPER_PRESET, DEFAULT_PRESET = "1.5b/a1_paper", "1.5b/a1"
ROW = re.compile(r"^\| ([^|]+) \| `([\w.]+)` \| ([^|]+) \| ([^|]+) \| [^|]+ \| [^|]+ \|$", re.MULTILINE)
"""What a key means, the key, and what the paper and its code do."""


def value(config: Config, key: str) -> Any:
    found: Any = config
    for name in key.split("."):
        found = getattr(found, name)
    return found


def refreshed(page: str) -> str:
    presets = [load(Config, preset) for preset in (PAPER_PRESET, DEFAULT_PRESET)]

    def row(match: re.Match[str]) -> str:
        meaning, key, *stated = match.groups()
        return f"| {' | '.join([meaning, f'`{key}`', *stated, *(shown(value(each, key)) for each in presets)])} |"

    return ROW.sub(row, page)


def shown(found: Any) -> str:
    if isinstance(found, bool):
        return "yes" if found else "no"
    if found is None:
        return "none"
    return f"{found:,}" if isinstance(found, int) else f"{found:g}" if isinstance(found, float) else str(found)


if __name__ == "__main__":
    TARGET.write_text(refreshed(TARGET.read_text()))
    print(TARGET)
