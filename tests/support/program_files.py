"""Files of programs: a line `=== NAME` begins each, and a line `##### SECTION #####` a section of them."""

import re
from pathlib import Path

_PART = re.compile(r"^(=== .+|##### .+ #####)\n((?:(?!===|#####).*\n)*)", re.MULTILINE)


def read_programs(path: Path) -> dict[str, dict[str, str]]:
    """By section ("" before the first) and by name."""
    section = ""
    found: dict[str, dict[str, str]] = {section: {}}
    for head, text in _PART.findall(path.read_text()):
        if head.startswith("#"):
            section = head.strip("# ")
            found[section] = {}
        else:
            found[section][head.removeprefix("=== ")] = text
    return found
