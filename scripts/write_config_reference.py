"""Writes the tables of docs/configuration.md: every key of the configuration, its type, its default and its meaning.

What stands above them in the page stays as it is.
"""

from __future__ import annotations

import re
from pathlib import Path

from codea1_jax.config import Config
from codea1_jax.config.reference import ConfigSection, sections

TARGET = Path(__file__).parent.parent / "docs" / "configuration.md"


def page() -> str:
    head = TARGET.read_text().partition("\n## ")[0]
    return "\n".join([head, *(_section(section) for section in sections(Config) if section.keys)])


def _section(section: ConfigSection) -> str:
    title = re.sub(r"^code\.", "code, test: ", section.prefix).replace("templates.code", "templates").rstrip(".: ")
    lines = [f"## {title or 'The run as a whole'}", "", section.meaning, ""]
    lines += ["| key | values | default | |", "| --- | --- | --- | --- |"]
    for key in section.keys:
        cells = (f"`{key.name}`", key.values, key.default or "*required*", key.meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(page())
    print(TARGET)
